import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));

const env = {
  ...process.env,
  // Generating needs no engine, but would fetch one from a server of its own unless told where one is.
  PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
  CHECKPOINT_DISABLE: '1',
};

/** Writes recipes/generated, from schema.prisma. Reaches no network. */
const options = { cwd: FOLDER, env, encoding: 'utf8' };
const { status, stdout, stderr } = spawnSync('node_modules/.bin/prisma', ['generate', '--no-hints'], options);
if (status !== 0) {
  process.stderr.write(`${stdout}${stderr}`);
  process.exitCode = 1;
}
