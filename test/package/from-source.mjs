// The commands under "Install" in the README, which take the package from its repository.
import { execFile } from 'node:child_process';
import { readFileSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file) => readFileSync(join(root, file), 'utf8');

/** Runs them beside this app, which is called your-app. The clone of which they speak is this repository, by a link. */
export async function installFromSource(app) {
  const { version } = JSON.parse(read('libs/distributed-lock/package.json'));
  const packed = `nestjs-distributed-lock-${version}.tgz`;
  const [, block] = /^## Install\n[^]*?^```sh\n([^]*?)^```$/m.exec(read('README.md')) ?? [];
  const named = ['npm run --silent pack\n', 'cd ../your-app\n', `${packed}\n`];
  const missing = named.filter((part) => !block?.includes(part));
  if (missing.length > 0) throw new Error(`The README's commands lack ${missing.join(', ')}:\n${block}`);

  const cwd = dirname(app);
  symlinkSync(root, join(cwd, 'nestjs-distributed-lock'));
  try {
    await promisify(execFile)('bash', ['-ec', block], { cwd, timeout: 180_000, maxBuffer: 2 ** 26 });
  } finally {
    rmSync(join(root, packed), { force: true });
  }
}
