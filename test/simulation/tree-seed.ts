import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** From where this file is built to. */
const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
/** What decides over a history. */
const SOURCES = ['libs/distributed-lock/src', 'test/simulation'];

/**
 * The first of the seeds that `--from tree` runs. It follows from the files of the commit that is checked out, so that one commit
 * always runs the same seeds and the next commit runs others. Changes that are not committed do not move it.
 */
export function seedOfTree(): number {
  return parseInt((treeOfCommit() ?? hashOfSources()).slice(0, 8), 16);
}

function treeOfCommit(): string | undefined {
  const { status, stdout } = spawnSync('git', ['rev-parse', 'HEAD^{tree}'], { cwd: ROOT, encoding: 'utf8' });
  return status === 0 ? stdout : undefined;
}

/** Where git or its repository is missing, as in an unpacked archive. */
function hashOfSources(): string {
  const hash = createHash('sha256');
  for (const folder of SOURCES.map((name) => join(ROOT, name))) {
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    for (const file of files.filter((it) => /\.(ts|lua)$/.test(it)).toSorted())
      hash.update(readFileSync(join(folder, file)));
  }
  return hash.digest('hex');
}
