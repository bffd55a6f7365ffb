import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const TIMEOUT_MS = 120_000;

/**
 * The answers of a library, one check after the other, each by a run of the script. A check that ends its process has the answer for
 * that.
 *
 * @param {URL} script @param {string} library @param {Record<string, { ifItDies?: string }>} checks
 */
export async function runChecks(script, library, checks) {
  const answers = {};
  for (const [name, { ifItDies }] of Object.entries(checks)) {
    const { answer, died } = await runCheck(script, library, name);
    if (answer === undefined && !ifItDies) throw new Error(`${library}, ${name}: ${died}`);
    answers[name] = answer ?? ifItDies;
  }
  return answers;
}

/** @returns {Promise<{ answer?: string, died?: string }>} */
function runCheck(script, library, check) {
  return new Promise((resolve) => {
    const args = ['--disable-warning=ExperimentalWarning', fileURLToPath(script), library, check];
    execFile(process.execPath, args, { timeout: TIMEOUT_MS }, (_error, stdout, stderr) => {
      const line = stdout.split('\n').find((it) => it.startsWith('{"answer"'));
      resolve(line ? JSON.parse(line) : { died: stderr });
    });
  });
}
