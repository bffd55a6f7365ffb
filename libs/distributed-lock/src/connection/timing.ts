import type { Chance, Clock } from '../common/clock.js';
import { within } from '../common/clock.js';
import type { LockClient } from '../port/lock-store.js';

/** Load balancers forget a connection that is idle for some minutes; some firewalls after one. */
export const KEEP_ALIVE_MS = 30_000;

/**
 * Checks the connections of a store at intervals, so that none of them is idle for long and one that has died is replaced
 * before a caller needs it.
 *
 * @returns a function that stops the checks
 */
export function keepAlive(clock: Clock, check: () => void): () => void {
  let cancel = (): void => undefined;
  const wait = (): void => {
    cancel = clock.after(KEEP_ALIVE_MS, () => {
      wait();
      check();
    });
  };
  wait();
  return () => cancel();
}

/** How long a server may take to accept a connection and to answer its first command, in ms. */
export function connectWithinMs(commandTimeoutMs: number): number {
  return 2 * Math.max(commandTimeoutMs, 100);
}

const SLOWEST_RECONNECT_MS = 1000;

/** Full jitter, so that the instances of a service do not come back all at once. */
export function reconnectDelay(chance: Chance, failures: number): number {
  return 20 + chance.random() * Math.min(25 * 2 ** failures, SLOWEST_RECONNECT_MS);
}

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

/**
 * Ends a connection gracefully. Resolves when the server has replied, when the connection has closed, after which no reply can
 * come, or after `withinMs`.
 */
export async function quitWithin(
  client: { once(event: 'close', listener: () => void): unknown },
  { clock, withinMs }: { readonly clock: Clock; readonly withinMs: number },
  quit: () => Promise<unknown>,
): Promise<void> {
  const closed = new Promise<void>((resolve) => client.once('close', resolve));
  const replied = quit().catch(() => undefined);
  await within(clock, withinMs, Promise.race([closed, replied]), undefined);
}
