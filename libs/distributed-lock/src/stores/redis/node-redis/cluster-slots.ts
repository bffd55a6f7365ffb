import { unlessAborted } from '../../../async-context/abort-listeners.js';
import { giveUpAfter } from '../../../time/turns.js';
import type { ClientSettings } from '../redis.client.js';
import { addressOf, type Place } from './given-options.js';
import { NodeRedisLink, openWithinMs } from './node-redis.link.js';
import type { NodeRedisPattern } from './node-redis.target.js';
import { SLOTS } from './slot-of.js';

/** Which master has which slots, by the addresses that the cluster tells. */
export interface ClusterSlots {
  /** The address of the master of each slot; empty for a slot that has none. */
  readonly owners: string[];
  /** All masters and replicas, by address. */
  readonly places: ReadonlyMap<string, Place>;
}

export const NO_SLOTS: ClusterSlots = { owners: [], places: new Map() };

type SlotsReply = readonly (readonly [
  first: number,
  last: number,
  ...nodes: [host: string | null, port: number][],
])[];

/**
 * Asks several nodes at once, each on a connection of its own, which is closed again. The first reply counts.
 *
 * @param end ends it early; aborted when it has settled
 */
export function readSlots(
  patterns: readonly NodeRedisPattern[],
  settings: ClientSettings,
  end: AbortController,
): Promise<ClusterSlots> {
  const { signal } = end;
  const withinMs = openWithinMs(settings.commandTimeoutMs);
  const lateError = new Error(`no node of the cluster has told its slots within ${withinMs} ms`);
  const cancel = giveUpAfter(settings.clock, withinMs, () => end.abort(lateError));
  const first = Promise.any(patterns.map((pattern) => ask(pattern, settings, signal)));
  const firstOrError = first.catch(({ errors: [error] }: AggregateError) => Promise.reject(error as Error));
  // The promise of an aborted attempt may never settle.
  return unlessAborted(signal, firstOrError).finally(() => {
    cancel();
    end.abort();
  });
}

async function ask(
  pattern: NodeRedisPattern,
  settings: ClientSettings,
  signal: AbortSignal,
): Promise<ClusterSlots> {
  const link = new NodeRedisLink(pattern, settings, () => undefined);
  const { client } = await link.open(signal);
  const reply = (await client.sendCommand(['CLUSTER', 'SLOTS'])) as SlotsReply;
  if (reply.length === 0) throw new Error('a node of the cluster knows no master with slots');
  return slotsIn(reply, client.options?.socket?.host ?? 'localhost');
}

/** @param asked the host of the node that was asked, for nodes that do not know their own */
function slotsIn(reply: SlotsReply, asked: string): ClusterSlots {
  const owners = Array.from({ length: SLOTS }, () => '');
  const places = new Map<string, Place>();
  for (const [first, last, ...nodes] of reply) {
    const found = nodes.map(([host, port]) => ({ host: host || asked, port }));
    for (const place of found) places.set(addressOf(place), place);
    owners.fill(addressOf(found[0] as Place), first, last + 1);
  }
  return { owners, places };
}
