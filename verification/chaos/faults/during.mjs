import { setTimeout as pause } from 'node:timers/promises';

/**
 * Does something to all connections of these networks, also to new ones, for a while.
 *
 * @param {readonly import('#tcp-proxy').TcpProxy[]} networks @param {number} ms
 * @param {(link: import('#tcp-proxy').Link) => void} change @param {(link: import('#tcp-proxy').Link) => void} undo
 */
export async function during(networks, ms, change, undo) {
  for (const network of networks) {
    network.onLink = change;
    network.open.forEach(change);
  }
  await pause(ms);
  for (const network of networks) {
    network.onLink = () => undefined;
    network.open.forEach(undo);
  }
}

/** Nothing gets through, for a while. @param {readonly import('#tcp-proxy').TcpProxy[]} networks @param {number} ms */
export function cut(networks, ms) {
  return during(
    networks,
    ms,
    (link) => link.vanish(),
    (link) => link.reset(),
  );
}
