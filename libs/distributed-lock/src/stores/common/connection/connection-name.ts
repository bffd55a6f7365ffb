import type { LockClient } from '../../../port/lock-client.js';

/** The name of a connection of a client that does not say who it is. */
const NAMELESS = 'nestjs-distributed-lock';
/** PostgreSQL cuts names off after 63 bytes. */
const MOST = { application: 18, host: 30 } as const;

/**
 * What a server shows of a connection, as `locks/shop/pod-7/4711`: application, host and process. Redis takes no spaces,
 * and a server may show the name to people who must not be led astray by it.
 */
export function connectionName(client: LockClient | undefined): string {
  if (!client) return NAMELESS;
  const application = safe(client.application).slice(0, MOST.application);
  // The end of the name of a pod tells it from its neighbours.
  const host = safe(client.host).slice(-MOST.host);
  return `locks/${application}/${host}/${client.process}`;
}

function safe(text: string): string {
  return text.replace(/[^\w.-]+/g, '-').replace(/^-+|-+$/g, '') || 'unnamed';
}
