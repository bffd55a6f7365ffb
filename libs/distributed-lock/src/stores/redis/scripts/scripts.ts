import { createHash } from 'node:crypto';
import type { LockMode } from '../../../port/claim.js';
import { inBackground } from '../../../async-context/in-background.js';
import type { RedisClient, RedisNode } from '../redis.client.js';
import * as lua from './lua.generated.js';

/**
 * A Lua script and the shape of its reply. The second part of a reply is the server's time in ms, or 0. The heads of
 * `lua/*.lua` say what the arguments mean.
 */
export interface Script<Reply> {
  readonly lua: string;
  readonly sha: string;
  /** Makes the whole reply from a single number, which is the most frequent reply. */
  readonly inFull?: (reply: number) => Reply;
}

export type ReplyOf<S> = S extends Script<infer Reply> ? Reply : never;

export const acquireScript = script<
  | readonly [kind: 0, now: number]
  | readonly [kind: 1, now: number, token: number, lastToken: number, waiting: number]
  | readonly [kind: 2, now: number, holder: string, remainingMs: number, ticket: number, others?: number]
  | readonly [kind: 3, now: number, holder: string, remainingMs: number, noTicket?: 0, others?: number]
  | readonly [kind: 4, now: number, leftMs: number]
>(lua.acquire, (token) => [1, Math.floor(token / 1000), token, token, 0]);
export const releaseScript = script<readonly [wasHolder: 0 | 1, now: number]>(lua.release, (wasHolder) => [
  wasHolder as 0 | 1,
  0,
]);
export const renewScript = script<
  | readonly [lost: 0, now: number]
  | readonly [renewed: 1, now: number, waiting: number]
  | readonly [tooLate: 2, now: number]
>(lua.renew);
export const renewAllScript = script<
  readonly [tooLate: 0, now: number] | readonly [answered: 1, now: number, ...waitingOrLost: number[]]
>(lua.renewAll);
export const forceScript = script<readonly [outcome: 0 | 1 | 2, now: number]>(lua.force);
export const inspectScript = script<
  readonly [
    mode: LockMode | '',
    now: number,
    remainingMs: number,
    lastToken: string,
    holders: number,
    ...holdersAndPending: string[],
  ]
>(lua.inspect);

const ALL = [acquireScript, releaseScript, renewScript, renewAllScript, forceScript, inspectScript];

/**
 * Loads the scripts that a server does not know. Commands that follow run them by hash, in the order in which they were
 * sent: a script that is sent once more, in full, would be executed after the commands that followed it.
 *
 * A server that does not allow `SCRIPT` gets a script in full when it replies `NOSCRIPT`.
 */
export async function loadScripts(client: RedisClient): Promise<void> {
  if (!client.isCluster) return loadInto(client);
  // A silent node must not delay the others.
  for (const node of client.masters()) inBackground(loadInto(node), () => undefined);
}

async function loadInto(server: Pick<RedisNode, 'call'>): Promise<void> {
  try {
    const known = (await server.call('script', ['EXISTS', ...ALL.map(({ sha }) => sha)])) as number[];
    const unknown = ALL.filter((_, i) => known[i] !== 1);
    // The replies are not awaited: commands that follow on this connection are executed after the loads.
    for (const { lua } of unknown) server.call('script', ['LOAD', lua]).catch(() => undefined);
  } catch {
    // The server does not allow it, or the connection is lost. The next command finds out.
  }
}

function script<Reply>(source: string, inFull?: Script<Reply>['inFull']): Script<Reply> {
  const sha = createHash('sha1').update(source).digest('hex');
  return inFull ? { lua: source, sha, inFull } : { lua: source, sha };
}
