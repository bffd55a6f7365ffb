import { describe } from '@jest/globals';
import { whyMissing, type ServerName } from '#servers';

/**
 * `describe` for tests that need servers: `describeWith('postgres')('a title', () => {})`.
 *
 * Where a server can be neither found nor fetched, one line says so and the tests are skipped. With `CI=true` they run, and
 * fail with what to do when they start that server.
 */
export function describeWith(...needed: ServerName[]): typeof describe | typeof describe.skip {
  if (process.env['CI'] === 'true') return describe;
  const missing = needed.map((name) => whyMissing(name)).find((why) => why !== undefined);
  if (missing === undefined) return describe;
  process.stderr.write(
    `Tests are skipped: ${missing.split('. ', 1)[0]}. See node tools/fetch-servers.mjs.\n`,
  );
  return describe.skip;
}
