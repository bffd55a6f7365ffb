// Runs the specs beside the sources, without a build and without a server: npm run test:unit [-- names, then options of Jest].
// A name is that of a file, or a part of a path. For a file without a spec of its own the specs that import it are run, or else
// those of its folder.
import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const given = process.argv.slice(2).filter((it) => it !== '--watch');
const firstOption = given.findIndex((it) => it.startsWith('-'));
const names = firstOption < 0 ? given : given.slice(0, firstOption);
const options = process.argv.slice(2).filter((it) => !names.includes(it));

const files = ['libs', 'apps']
  .flatMap((top) =>
    readdirSync(join(root, top), { recursive: true, encoding: 'utf8' }).map((file) => `${top}/${file}`),
  )
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => file.endsWith('.ts') && !/\/(dist|node_modules)\//.test(file));

/** The specs for a name: those whose path has it, or else those that import the file, or those of the nearest folder that has some. */
function nearest(name) {
  const stem = name.replace(/(\.spec)?\.ts$/, '');
  const named = files.filter((file) => file.includes(stem));
  const exact = named.filter((file) =>
    new RegExp(`(^|/)${stem.replaceAll('.', '\\.')}(\\.spec)?\\.ts$`).test(file),
  );
  const wanted = exact.length > 0 ? exact : named;
  if (wanted.length === 0) throw new Error(`No TypeScript file of libs and apps has "${name}" in its path.`);
  const own = wanted.filter((file) => file.endsWith('.spec.ts'));
  if (own.length > 0) return own;
  const importing = files.filter((file) => file.endsWith('.spec.ts') && imports(file, wanted[0]));
  if (importing.length > 0) {
    console.log(`"${name}" has no spec of its own: these import it. ${suitesOf(wanted[0])}`);
    return importing;
  }
  for (let folder = dirname(wanted[0]); folder !== '.'; folder = dirname(folder)) {
    const specs = files.filter((file) => file.startsWith(`${folder}/`) && file.endsWith('.spec.ts'));
    if (specs.length === 0) continue;
    console.log(`"${name}" has no spec of its own: these are the specs in ${folder}. ${suitesOf(wanted[0])}`);
    return specs;
  }
  throw new Error(`No folder above ${wanted[0]} has specs. ${suitesOf(wanted[0])}`);
}

function imports(spec, file) {
  const found = readFileSync(join(root, spec), 'utf8').matchAll(/ from '(\.[^']+)\.js'/g);
  return [...found].some(([, path]) => `${posix.join(dirname(spec), path)}.ts` === file);
}

/** From the table in test/README.md. */
function suitesOf(file) {
  const page = readFileSync(join(root, 'test/README.md'), 'utf8');
  for (let folder = dirname(file); folder !== '.'; folder = dirname(folder)) {
    const [, suites] = new RegExp(`^\\| \`${folder}\` +\\| (.*?) +\\|$`, 'm').exec(page) ?? [];
    if (suites) return `Its suites: npm test -- ${suites.replaceAll(/[`,]/g, '')}`;
  }
  return '';
}

try {
  const specs = names.flatMap(nearest);
  const chosen = specs.length > 0 ? ['--runTestsByPath', ...new Set(specs)] : [];
  const flags = ['--disable-warning=ExperimentalWarning', '--experimental-vm-modules'];
  const jest = [
    ...flags,
    'node_modules/jest/bin/jest.js',
    '-c',
    'test/unit.config.mjs',
    ...options,
    ...chosen,
  ];
  process.exitCode = spawnSync(process.execPath, jest, { cwd: root, stdio: 'inherit' }).status ?? 1;
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
