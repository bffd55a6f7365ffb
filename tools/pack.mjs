// Packs the library as npm would publish it, for an application that is not in this repository, and says what to type next.
// Installs first what it needs for that, in a fresh clone.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Where `npm run` was called. */
const here = process.env.INIT_CWD ?? process.cwd();

if (!existsSync(`${ROOT}/node_modules`)) npm('ci', '--no-audit', '--no-fund', '--loglevel', 'error');
const [{ filename, size }] = JSON.parse(
  npm('pack', '--json', '--silent', '-w', 'nestjs-distributed-lock').replace(/^[^[]*/, ''),
);
const file = relative(here, ROOT) === '' ? `../${ROOT.split('/').at(-2)}/${filename}` : `${ROOT}${filename}`;
console.log(`Packed ${filename}, ${Math.round(size / 1000)} kB. In the folder of your application, beside this one:

  npm install ${file}
  npx nest add nestjs-distributed-lock --skip-install --store redis
  npm install`);

/** Shows what npm prints only if it fails. */
function npm(...args) {
  const shell = process.platform === 'win32';
  const { status, stdout, stderr } = spawnSync('npm', args, {
    cwd: ROOT,
    encoding: 'utf8',
    shell,
    maxBuffer: 2 ** 26,
  });
  if (status === 0) return stdout;
  console.error(`npm ${args.join(' ')} failed:\n${stdout}${stderr}`);
  process.exit(status ?? 1);
}
