import { type Chance, type Clock, within } from '../common/clock.js';
import type { LockClient } from '../port/lock-store.js';

/**
 * How often idle connections are checked, in ms. Load balancers drop a connection that is idle for some minutes, some firewalls
 * after one.
 */
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

/**
 * A random delay before the next attempt to connect, in ms, longer after more failures. Full jitter keeps the instances of a
 * service from coming back all at once.
 */
export function reconnectDelay(chance: Chance, failures: number): number {
  return 20 + chance.random() * Math.min(25 * 2 ** failures, SLOWEST_RECONNECT_MS);
}

/** The name of a connection whose client does not say who it is. */
const NAMELESS = 'nestjs-distributed-lock';
/** Longest parts of a connection's name, in characters. PostgreSQL cuts the whole name off after 63 bytes. */
const MOST = { application: 18, host: 30 } as const;

/**
 * The name of a connection as the server shows it, such as `locks/shop/pod-7/4711`: application, host and process.
 *
 * Characters that Redis refuses, such as spaces, or that would harm the terminal of an operator become `-`.
 */
export function connectionName(client: LockClient | undefined): string {
  if (!client) return NAMELESS;
  const application = safe(client.application).slice(0, MOST.application);
  // Keep the end of the host's name, which tells a pod from its neighbours.
  const host = safe(client.host).slice(-MOST.host);
  return `locks/${application}/${host}/${client.process}`;
}

function safe(text: string): string {
  return text.replace(/[^\w.-]+/g, '-').replace(/^-+|-+$/g, '') || 'unnamed';
}

/**
 * Ends a connection gracefully. Resolves as soon as the server has replied, the connection has closed (no reply can come after
 * that), or `withinMs` have passed.
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
