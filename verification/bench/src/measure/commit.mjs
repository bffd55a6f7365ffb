import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));
/** What decides the figures. Pages that a run writes are none of it. */
const MEASURED = ['libs', 'package-lock.json', 'verification/bench', ':!verification/bench/results'];

/** @returns {string} the commit that is measured, and whether files differ from it */
export function commitHere() {
  const hash = git('rev-parse', '--short=12', 'HEAD');
  if (!hash) return 'unknown';
  return git('status', '--porcelain', '--', ...MEASURED)
    ? `${hash}, with changes that are not committed`
    : hash;
}

/** @param {...string} args @returns {string} '' where there is no repository */
function git(...args) {
  return spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' }).stdout?.trim() ?? '';
}
