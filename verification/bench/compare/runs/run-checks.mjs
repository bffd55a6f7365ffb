import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { CHECKS } from '../checks/index.mjs';

const SCRIPT = fileURLToPath(new URL('run-check.mjs', import.meta.url));
const TIMEOUT_MS = 60_000;

/** The answers of a library, one check after the other. A check that ends its process has the answer for that. */
export async function runChecks(library) {
  const answers = {};
  for (const [name, { ifItDies }] of Object.entries(CHECKS)) {
    const { answer, died } = await runCheck(library, name);
    if (answer === undefined && !ifItDies) throw new Error(`${library}, ${name}: ${died}`);
    answers[name] = answer ?? ifItDies;
  }
  return answers;
}

/** @returns {Promise<{ answer?: string, died?: string }>} */
function runCheck(library, check) {
  return new Promise((resolve) => {
    const args = ['--disable-warning=ExperimentalWarning', SCRIPT, library, check];
    execFile(process.execPath, args, { timeout: TIMEOUT_MS }, (_error, stdout, stderr) => {
      const line = stdout.split('\n').find((it) => it.startsWith('{"answer"'));
      resolve(line ? JSON.parse(line) : { died: stderr });
    });
  });
}
