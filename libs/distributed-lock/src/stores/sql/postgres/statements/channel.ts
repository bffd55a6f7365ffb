/** Client ids are random, so that only a client that may read the table can forge a notification. PGlite quotes no names. */
export function channelOf(clientId: string): string {
  return `nest_lock_${channelId(clientId)}`;
}

/** A client in the column `clients`, and in what a statement tells. */
export function channelId(clientId: string): string {
  return clientId.replaceAll('-', '');
}
