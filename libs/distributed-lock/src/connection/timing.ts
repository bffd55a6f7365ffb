import { type Chance, type Clock, within } from '../common/clock.js';
import type { LockClient } from '../port/lock-store.js';

/** How often idle connections are checked, in ms. Load balancers and firewalls drop those that are idle for a minute or more. */
export const KEEP_ALIVE_MS = 30_000;

/** Calls `check`, which sends something on the store's connections, at intervals. @returns a function that stops the checks */
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

/** How long to wait for the server, in ms, until it has accepted a connection and answered the first command. */
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

const NAMELESS = 'nestjs-distributed-lock';
/** How many characters of the application's and the host's name go into a connection's name: PostgreSQL cuts off all after 63 bytes. */
const MOST = { application: 18, host: 30 } as const;

/**
 * The name of a connection as the server shows it, such as `locks/shop/pod-7/4711`. Characters that Redis refuses, such as spaces, or
 * that would harm the terminal of an operator become `-`.
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

/** Resolves when the server has replied to `quit`, when the connection has closed, or after `withinMs`. */
export async function quitWithin(
  client: { once(event: 'close', listener: () => void): unknown },
  { clock, withinMs }: { readonly clock: Clock; readonly withinMs: number },
  quit: () => Promise<unknown>,
): Promise<void> {
  const closed = new Promise<void>((resolve) => client.once('close', resolve));
  const replied = quit().catch(() => undefined);
  await within(clock, withinMs, Promise.race([closed, replied]));
}
