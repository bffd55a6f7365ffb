import type { Introduction, LockStore } from '../../port/lock-store.js';

/** Tells all nodes who this client is. @throws the error of a node when none has taken it */
export async function introduceTo(nodes: readonly LockStore[], introduction: Introduction): Promise<void> {
  const told = await Promise.allSettled(nodes.map(async (node) => node.introduce?.(introduction)));
  const [failed] = told.filter((outcome) => outcome.status === 'rejected');
  if (failed && told.every(({ status }) => status === 'rejected')) throw failed.reason;
}

/** The introduction of each client that any of the nodes has. */
export async function introductionsAt(
  nodes: readonly LockStore[],
  clientIds: readonly string[],
): Promise<readonly (string | undefined)[]> {
  const told = await Promise.allSettled(nodes.map(async (node) => node.readIntroductions?.(clientIds)));
  const known = told.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : undefined));
  return clientIds.map((_, i) => known.map((texts) => texts?.[i]).find((text) => text !== undefined));
}
