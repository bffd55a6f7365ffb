import type { LockStore } from '../../port/lock-store.js';

/**
 * Digits of the number in an id: the client, the owner's count, which may have more, and its stay at the node. A billion
 * stays take longer than any message of the first one is under way.
 */
const DIGITS = { client: 4, count: 7, stay: 9 };
const NUMBER = new RegExp(`:(-?)(\\d{${DIGITS.client}})(\\d{${DIGITS.count},})\\d{${DIGITS.stay}}$`);

/** Only for messages and `inspect`: two clients with one name disturb nothing, as nodes know each by an id of its own. */
export function newClientId(): string {
  const smallest = 10 ** (DIGITS.client - 1);
  return `quorum-${smallest + Math.floor(Math.random() * 9 * smallest)}`;
}

/**
 * The id of one stay of an owner at one node: of the node's own client, so that its pushes reach us. The number says the
 * rest: whose stay, for all who see it at other nodes, and which, so that what an earlier stay of the owner has left in
 * the network cannot touch a later one.
 */
export function idAt(node: LockStore, owner: string, stay: number): string {
  return `${node.clientId}:${numberOf(owner)}${padded(DIGITS.stay, stay % 10 ** DIGITS.stay)}`;
}

/** The owner whose stay it is; a stranger keeps its own name. */
export function ownerAt(id: string): string {
  const [, keeper, client, count] = NUMBER.exec(id) ?? [];
  return client === undefined ? id : `quorum-${client}:${keeper}${BigInt(count ?? 0)}`;
}

/** The same for an owner and for all its stays. */
export function numberOf(owner: string): string {
  const [client = '', count = ''] = owner.slice(owner.indexOf('-') + 1).split(':');
  return client + padded(DIGITS.count, count);
}

export function numberAt(id: string): string {
  const [, , client = '', count = ''] = NUMBER.exec(id) ?? [];
  return client + count;
}

function padded(digits: number, number: number | string): string {
  return String(number).padStart(digits, '0');
}

let lastPlace = 0;

/**
 * A place in line, in µs since 1970: one for all nodes, so that all of them have the same order and pass the lock to the
 * same owner. Clocks of processes that differ cost fairness, nothing else.
 */
export function newTicket(): number {
  const now = Math.floor((performance.timeOrigin + performance.now()) * 1000);
  return (lastPlace = Math.max(now, lastPlace + 1));
}
