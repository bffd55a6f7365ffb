// npm run docs [-- build | check | dev | preview]: makes the site, looks at it in a browser, serves it while you write, serves it as built.
const COMMANDS = {
  build: () => import('./build.mjs'),
  check: () => import('./check.mjs'),
  dev: () => import('./dev.mjs'),
  preview: () => import('./preview.mjs'),
};

const [name = 'build'] = process.argv.slice(2);
const run = COMMANDS[name];
if (!run) throw new Error(`"${name}" is none of ${Object.keys(COMMANDS).join(', ')}.`);
await run();
