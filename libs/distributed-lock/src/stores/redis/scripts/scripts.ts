import { createHash } from 'node:crypto';
import type { Cluster, Redis } from 'ioredis';
import type { LockMode } from '../../../port/claim.js';
import { inBackground } from '../../../async/in-background.js';
import type { Client } from '../connection/redis.command.js';
import * as lua from './lua.generated.js';

/** A Lua script and the shape of its reply, whose second part is the server's time in ms, or 0; heads in `lua/*.lua` say what its arguments mean. */
export interface Script<Reply> {
  readonly lua: string;
  readonly sha: string;
  /** What it means by a single number, its commonest reply. */
  readonly inFull?: (reply: number) => Reply;
}

export type ReplyOf<S> = S extends Script<infer Reply> ? Reply : never;

export const acquireScript = script<
  | readonly [kind: 0, now: number]
  | readonly [kind: 1, now: number, token: number, lastToken: number, waiting: number]
  | readonly [kind: 2, now: number, holder: string, remainingMs: number, ticket: number]
  | readonly [kind: 3, now: number, holder: string, remainingMs: number]
>(lua.acquire, (token) => [1, Math.floor(token / 1000), token, token, 0]);
export const acquireAllScript = script<
  | readonly [late: 0, now: number]
  | readonly [granted: 1, now: number, ...tokens: number[]]
  | readonly [inUse: 2, now: number, number: number]
>(lua.acquireAll);
export const releaseScript = script<readonly [wasHolder: 0 | 1, now: number]>(lua.release, (wasHolder) => [
  wasHolder as 0 | 1,
  0,
]);
export const renewScript = script<
  | readonly [lost: 0, now: number]
  | readonly [renewed: 1, now: number, waiting: number]
  | readonly [late: 2, now: number]
>(lua.renew);
export const renewAllScript = script<
  readonly [late: 0, now: number] | readonly [answered: 1, now: number, ...waitingOrLost: number[]]
>(lua.renewAll);
export const forceScript = script<readonly [wasHeld: 0 | 1, now: number]>(lua.force);
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

export const guardScript = script<readonly [leftMs: number, now: number]>(lua.guard);

const ALL = [
  acquireScript,
  acquireAllScript,
  releaseScript,
  renewScript,
  renewAllScript,
  forceScript,
  inspectScript,
  guardScript,
];

/**
 * Tells a server those scripts that it does not know. What is asked for by hash after that finds them, in the order in
 * which it was asked: a script sent once more, in full, would come behind what followed it.
 *
 * A server that does not allow it gets each script in full when it asks for it.
 */
export async function loadScripts(client: Client): Promise<void> {
  if (!client.isCluster) return loadInto(client as Redis);
  // One node that is silent holds up nobody.
  for (const node of (client as Cluster).nodes('master')) inBackground(loadInto(node), () => undefined);
}

async function loadInto(server: Redis): Promise<void> {
  try {
    const known = (await server.script('EXISTS', ...ALL.map(({ sha }) => sha))) as number[];
    const unknown = ALL.filter((_, i) => known[i] !== 1);
    // Nobody waits for the answers: what follows on this connection comes after them.
    for (const { lua } of unknown) server.script('LOAD', lua).catch(() => undefined);
  } catch {
    // Not allowed, or gone: then this connection is told so by what follows.
  }
}

function script<Reply>(source: string, inFull?: Script<Reply>['inFull']): Script<Reply> {
  const sha = createHash('sha1').update(source).digest('hex');
  return inFull ? { lua: source, sha, inFull } : { lua: source, sha };
}
