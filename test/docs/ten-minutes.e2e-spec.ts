import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { readPage } from '../support/pages.js';
import { OWN_SERVERS } from '../seckill/support/run-program.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LIMIT_MS = 240_000;

/** A command of the page, and what the page says that it prints. */
const COMMAND = /^```sh\n(.+)\n```\n\n```text\n([^]*?)^```$/gm;
const commands = [...readPage('docs/ten-minutes.md').matchAll(COMMAND)].map(
  ([, command = '', printed = '']) => [command, printed] as const,
);

/** What is run: without other libraries, where nobody has installed these. */
const isRun = (command: string): boolean =>
  command.includes('--contestant')
    ? existsSync(`${ROOT}verification/bench/peers/node_modules`)
    : / (demo|simulate) /.test(command);

/** Numbers differ from run to run, but not whether there are any. Who notices first, the process or the database, differs, too. */
const withoutFigures = (text: string): string =>
  text
    .replaceAll(/\d[\d.]*/g, (n) => (n === '0' ? n : '#'))
    .replaceAll(/# (LOCK_LOST|STALE_TOKEN)/g, 'a loss');

async function readBenchOptions(args: readonly string[]): Promise<void> {
  const bench = `${ROOT}verification/bench/src`;
  const { parseOptions } = (await import(`${bench}/options.mjs`)) as Record<string, any>;
  const { STORES } = (await import(`${bench}/stores/index.mjs`)) as Record<string, any>;
  parseOptions(args, STORES);
}

describe('the page for ten minutes', () => {
  it('has five commands', () => {
    expect(commands).toHaveLength(5);
  });

  it.each(commands)('has a command of this repository: %s', async (command) => {
    const [, script = '', rest = ''] = /^npm run --silent ([\w:]+) -- (.+)$/.exec(command) ?? [];
    expect(Object.keys(JSON.parse(readPage('package.json')).scripts)).toContain(script);
    const args = rest.split(' ');
    const [, plan = 'package.json'] = /--plan (\S+)/.exec(rest) ?? [];
    expect(existsSync(`${ROOT}${plan}`)).toBe(true);
    // Throws for an option that the benchmark does not have.
    if (script === 'bench') await readBenchOptions(args);
  });

  it.each(commands.filter(([command]) => isRun(command)))(
    'says what its command prints: %s',
    async (command, printed) => {
      const [name = '', ...args] = command.split(' ');
      const env = { ...process.env, ...OWN_SERVERS };
      // A broken promise is an error of the command, as it should be in the last one.
      const run = promisify(execFile)(name, args, { cwd: ROOT, env });
      const { stdout } = await run.catch((error: { readonly stdout: string }) => error);
      const lines = withoutFigures(stdout).split('\n');
      for (const line of withoutFigures(printed).trimEnd().split('\n')) expect(lines).toContain(line);
    },
    LIMIT_MS,
  );
});
