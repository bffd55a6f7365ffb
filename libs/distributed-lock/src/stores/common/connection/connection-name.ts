import type { LockClient } from '../../../port/lock-client.js';

/** The name of a connection of a client that does not say who it is. */
const NAMELESS = 'nestjs-distributed-lock';
/** PostgreSQL cuts names off after 63 bytes. */
const MOST = { application: 18, host: 30 } as const;

/**
 * The name of a connection as the server shows it, such as `locks/shop/pod-7/4711`: application, host and process.
 *
 * Characters that Redis refuses, such as spaces, or that would harm the terminal of an operator become `-`.
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
