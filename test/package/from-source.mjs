// The commands under "Install" in the README, which take the package from its repository.
import { execFile } from 'node:child_process';
import { readFileSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file) => readFileSync(join(root, file), 'utf8');

/**
 * Runs them beside this app, which is called your-app. The clone is one of this repository, and uses what is
 * installed here.
 */
export async function installFromSource(app) {
  const { version } = JSON.parse(read('libs/distributed-lock/package.json'));
  const [, block] = /^## Install\n[^]*?^```sh\n([^]*?)^```$/m.exec(read('README.md')) ?? [];
  const named = ['npm run --silent pack\n', 'cd ../your-app\n', `-lock-${version}.tgz\n`];
  const missing = named.filter((part) => !block?.includes(part));
  if (missing.length > 0) throw new Error(`The README's commands lack ${missing.join(', ')}:\n${block}`);

  const folder = dirname(app);
  const run = (script) =>
    promisify(execFile)('bash', ['-ec', script], { cwd: folder, timeout: 180_000, maxBuffer: 2 ** 26 });
  await run(`git clone --quiet ${JSON.stringify(root)} nestjs-distributed-lock`);
  symlinkSync(join(root, 'node_modules'), join(folder, 'nestjs-distributed-lock/node_modules'));
  await run(block);
}
