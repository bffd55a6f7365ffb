import { parseSessionDocument } from '../../../../libs/distributed-lock/src/session/json.js';
import { LockPaths } from '../../../../libs/distributed-lock/src/zookeeper/znodes.js';
import type { Decisions } from './decisions.js';
import type { Tree, Znode } from './tree.js';

export const PATHS = new LockPaths('/nest-lock');

/** The client whose mailbox a znode is. */
export function clientOf(path: string): string | undefined {
  const [, name] = /^\/nest-lock\/m\/(.+)$/.exec(path) ?? [];
  return name === undefined ? undefined : LockPaths.decode(name);
}

/** Of all clients. */
export function mailboxesIn(tree: Tree): readonly string[] {
  return [...(tree.get('/nest-lock/m')?.children ?? [])].map((name) => `/nest-lock/m/${name}`);
}

/** Parents without children, each before its own parent, as if those before it were gone. */
export function emptyParentsIn(tree: Tree): readonly string[] {
  const queues = [...(tree.get(`${PATHS.base}/q`)?.children ?? [])].map((name) => `${PATHS.base}/q/${name}`);
  const gone = new Set<string>();
  for (const path of [...queues, ...PATHS.parents.toReversed()]) {
    const node = tree.get(path);
    if (node && [...node.children].every((name) => gone.has(`${path}/${name}`))) gone.add(path);
  }
  return [...gone];
}

/** By owner, for how many true ms the servers keep its lock. A lock lasts as long as its session. */
export function holdersOf({ tree, sessions }: Decisions, key: string): ReadonlyMap<string, number> {
  const node = tree.get(PATHS.documentOf(key));
  if (!node) return new Map();
  const leftOf = (session = ''): number => {
    const presence = tree.get(PATHS.presenceOf(session));
    return presence ? sessions.leftOf(presence.owner) : 0;
  };
  return new Map(documentIn(node, key).holders.map(({ owner, session }) => [owner, leftOf(session)]));
}

/** Locks that sessions which are alive hold or wait for, and notes. */
export function inUse({ tree }: Decisions): readonly string[] {
  const below = (path: string): readonly string[] =>
    [...(tree.get(path)?.children ?? [])].map((name) => `${path}/${name}`);
  const isAlive = (session = ''): boolean => tree.get(PATHS.presenceOf(session)) !== undefined;
  const locks = below(PATHS.documents).flatMap((path) => {
    const node = tree.get(path) as Znode;
    const { holders, queue } = documentIn(node, path);
    return [...holders, ...queue].some(({ session }) => isAlive(session)) ? `${path}: ${node.data}` : [];
  });
  return [
    ...locks,
    ...below(`${PATHS.base}/q`)
      .flatMap(below)
      .map((path) => `the note ${path}`),
  ];
}

export function storedKeys({ tree }: Decisions): readonly string[] {
  return [...(tree.get(PATHS.documents)?.children ?? [])].flatMap((name) => LockPaths.decode(name) ?? []);
}

function documentIn({ data, mzxid }: Znode, name: string) {
  return parseSessionDocument(data, mzxid, name).document;
}
