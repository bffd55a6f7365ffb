import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { unpackDebianPackages } from '../../tools/debian-packages/index.mjs';

/**
 * The `go` of the PATH, or else that of the distribution (Debian, Ubuntu), unpacked below node_modules/.cache and not installed.
 *
 * @returns {{ readonly command: string, readonly env: NodeJS.ProcessEnv } | undefined}
 */
export function findGo() {
  return runnable('go', process.env) ?? unpacked();
}

function unpacked() {
  const packages = unpackDebianPackages('golang', ['golang-go']);
  if (!packages) return undefined;
  const command = join(packages.folder, 'usr/bin/go');
  // It looks for its root where the package would have been installed.
  const root = spawnSync('readlink', ['-f', join(command, '../../lib/go')], {
    encoding: 'utf8',
  }).stdout.trim();
  return runnable(command, { ...packages.env, GOROOT: root });
}

/** @param {string} command @param {NodeJS.ProcessEnv} env */
function runnable(command, env) {
  return spawnSync(command, ['version'], { env, stdio: 'ignore' }).status === 0
    ? { command, env }
    : undefined;
}
