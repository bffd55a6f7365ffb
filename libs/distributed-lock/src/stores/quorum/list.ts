import { LockConfigurationError, LockStoreError } from '../../port/lock.errors.js';
import type { KeyPage, ListRequest } from '../../port/lock-store.js';
import { storeThatCan } from '../../port/capabilities.js';
import { snapshotsOf } from '../../port/snapshots-of.js';
import { inspect } from './inspect.js';
import { answersOf } from './majority.js';
import { outcomesOf, type QuorumContext } from './quorum.context.js';
import type { QuorumNode } from './quorum.node.js';

/**
 * Joins one page of each node. A key may be on several pages, because each node has an order of its own.
 *
 * A majority of the nodes must be listed to the end, so that each key that a majority names is on a page of one of them.
 *
 * @throws LockStoreError when fewer than a majority of the nodes have answered for this page and each page before
 */
export async function list(context: QuorumContext, { prefix, limit, cursor }: ListRequest): Promise<KeyPage> {
  const places = placesIn(cursor, context.nodes.length);
  const request = { prefix, limit: Math.ceil(limit / context.nodes.length) };
  const outcomes = await outcomesOf(context, undefined, (node, i) => pageAt(node, places[i], request));
  const pages = answersOf(outcomes);
  const keys = new Set(
    pages.flatMap(({ entries, unreadable }) => [...entries, ...unreadable].map(({ key }) => key)),
  );
  const found = await snapshotsOf([...keys].sort(), (key) => inspect(context, key));
  const next = outcomes.map((outcome): Place =>
    outcome?.status === 'fulfilled' ? (outcome.value.cursor ?? null) : false,
  );
  const hasNext = next.some((place) => typeof place === 'string');
  return {
    ...found,
    ...(hasNext && { cursor: JSON.stringify(next) }),
  };
}

/** The cursor of the next page of a node; `undefined`: its first page; `null`: it has no further one; `false`: it did not answer. */
type Place = string | undefined | null | false;

/** A node without a further page counts as answered. A node that did not answer for an earlier page counts as failed. */
async function pageAt(
  node: QuorumNode,
  place: Place,
  request: Omit<ListRequest, 'cursor'>,
): Promise<KeyPage> {
  if (place === null) return { entries: [], unreadable: [] };
  if (place === false)
    throw new LockStoreError('it did not answer for a page before', undefined, 'unreachable');
  const cursor = place === undefined ? {} : { cursor: place };
  return node.watch(storeThatCan(node.store, 'list').list({ ...request, ...cursor }));
}

function placesIn(cursor: string | undefined, nodes: number): readonly Place[] {
  if (cursor === undefined) return [];
  const isPlace = (it: unknown): boolean => typeof it === 'string' || it === null || it === false;
  try {
    const places: unknown = JSON.parse(cursor);
    if (Array.isArray(places) && places.length === nodes && places.every(isPlace)) return places as Place[];
  } catch {
    // No cursor of ours.
  }
  throw new LockConfigurationError(
    `cursor must be the cursor of a page of this quorum of ${nodes} nodes. Begin again without one.`,
  );
}
