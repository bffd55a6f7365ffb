import { userInfo } from 'node:os';
import { systemClock, timeOfDay } from '../../common/clock.js';
import { maxOf } from '../../common/collections.js';
import { escapeUnprintable } from '../../common/redaction.js';
import type { LockInspection, LockPage } from '../../lock/lock.js';
import type { LockService } from '../../lock/lock.service.js';
import type { LockHolder } from '../../port/lock-store.js';
import { LockStoreError } from '../../port/lock.errors.js';
import { lockView, oldestFirst } from '../lock-view.js';
import { type Command, type CommandName, WrongUse } from './command-line.js';
import type { Terminal } from './run.js';

const [FOUND, NOTHING, REFUSED] = [0, 1, 3];
const PAGE = 1000;
const WATCH_EVERY_MS = 1000;
/** `watch` reads at most this many of the known keys again per second. */
const MAX_READ_AGAIN = 200;
const NAMELESS = 'the command line';

const ls: Run = async (locks, command, terminal) => {
  const { found, unreadable, failure } = await findAll(locks, command, terminal);
  if (command.json) terminal.write(found.map(jsonOf).join(''));
  else if (found.length > 0) {
    terminal.write(`${tableOf([TABLE_HEAD, ...found.map(tableRow)], terminal.width).join('\n')}\n`);
  } else if (unreadable.size === 0 && !failure) terminal.complain('No key is held or waited for.');
  for (const [key, message] of unreadable) terminal.complain(unreadableText(key, message));
  // Report the failure last, after the locks that were found before it.
  if (failure) throw failure;
  if (unreadable.size > 0) return REFUSED;
  return found.length > 0 ? FOUND : NOTHING;
};

const inspect: Run = async (locks, command, terminal) => {
  const found = await findOne(locks, command, terminal);
  if (!found) return NOTHING;
  const { key, mode = 'free', heldBy, waiters, remainingMs, renewedAgoMs, fencingToken } = found;
  const renewed = renewedAgoMs === undefined ? '' : `, last renewed ${durationText(renewedAgoMs)} ago`;
  const lines = [
    `${escapeUnprintable(key)}: ${mode}, token ${fencingToken ?? 'unknown'}, lease ${durationText(remainingMs)}`,
    ...heldBy.map(
      (holder) =>
        `held by  ${holderText(holder)}${holder.heldMs === undefined ? '' : ` for ${durationText(holder.heldMs)}`}${renewed}`,
    ),
    ...waiters.map((waiter) => `waiting  ${holderText(waiter)}`),
  ];
  terminal.write(command.json ? jsonOf(found) : `${lines.join('\n')}\n`);
  return FOUND;
};

/**
 * Prints one line for each change of holders or queue, for all keys with the given prefix. Ends by Ctrl-C only, even if the store
 * is slow or cannot be reached for a while.
 *
 * Each second it reads the known keys again, those first that were not read for the longest time. To find new keys it lists the
 * whole store at the start, and from then on one page per second, so that a large store is loaded no more than a small one.
 */
const watch: Run = async (locks, command, terminal) => {
  const shown = new Map<string, string>();
  const complained = new Set<string>();
  let [cursor, isKnown, hasAnswered]: [string | undefined, boolean, boolean] = [undefined, false, false];
  const complainOnce = (about: string, text: string): void => {
    if (!complained.has(about)) terminal.complain(text);
    complained.add(about);
  };
  const show = (key: string, lock: LockInspection | undefined): void => {
    const before = shown.get(key);
    const state = lock && JSON.stringify([lock.holders, lock.pending.length, lock.mode]);
    // Move the key to the end of the map. Its order is the order in which keys are read again.
    shown.delete(key);
    if (state !== undefined) shown.set(key, state);
    if (state !== before) terminal.write(changeText(command, key, lock));
  };
  const lookOn = async (): Promise<ReadonlySet<string>> => {
    const limit = isKnown ? MAX_READ_AGAIN : PAGE;
    const request = { prefix: command.key, cursor, limit };
    // Until the page has come there is no cursor. If listing fails, the next turn starts again at the first page.
    cursor = undefined;
    const page = await terminal.unlessInterrupted(locks.list(request));
    hasAnswered = true;
    for (const entry of page.entries) show(entry.key, entry);
    for (const { key, message } of page.unreadable) complainOnce(`key ${key}`, unreadableText(key, message));
    ({ cursor } = page);
    isKnown ||= cursor === undefined;
    return new Set(page.entries.map(({ key }) => key));
  };
  const readAgain = async (isRead: ReadonlySet<string>): Promise<void> => {
    const keys = [...shown.keys()].filter((key) => !isRead.has(key)).slice(0, MAX_READ_AGAIN);
    const readings = keys.map(async (key) => ({ key, lock: await locks.inspect(key) }));
    for (const { key, lock } of await terminal.unlessInterrupted(Promise.all(readings))) {
      show(key, lock ?? undefined);
    }
  };
  for (;;) {
    try {
      do await readAgain(await lookOn());
      while (!isKnown);
      complained.delete('store');
    } catch (error) {
      if (!isPassing(error, hasAnswered)) throw error;
      complainOnce('store', `${escapeUnprintable(error.message)} Watching goes on.`);
    }
    await terminal.pause(WATCH_EVERY_MS);
  }
};

/**
 * Returns whether the store may answer the next time, so that `watch` goes on. If it cannot be reached and never was, the address
 * is probably wrong.
 */
function isPassing(error: unknown, hasAnswered: boolean): error is LockStoreError {
  if (!(error instanceof LockStoreError)) return false;
  return (
    error.reason === 'unknown' || error.reason === 'unready' || (hasAnswered && error.reason !== 'refused')
  );
}

const release: Run = async (locks, command, terminal) => {
  const { key, yes, json, by = systemUser() } = command;
  const found = await findOne(locks, command, terminal);
  if (!found) return NOTHING;
  // Take the lock only from the holders that the question shows. While the operator thinks, others may acquire it.
  const { owners = found.holders } = command;
  const losing = found.heldBy.filter(({ owner }) => owners.includes(owner));
  if (!yes && (losing.length > 0 || command.owners === undefined)) {
    if (!terminal.canAsk) throw new WrongUse('release asks first, and nobody can answer here. Add --yes.');
    terminal.complain(
      `"${escapeUnprintable(key)}" is ${stateText({ ...found, heldBy: losing })}.\nA holder that is alive is told, and its work goes on until it looks. Then two may write, unless the resource refuses the smaller fencing token.`,
    );
    if (!(await terminal.ask('Release it by force?'))) return NOTHING;
  }
  const answer = await terminal.unlessInterrupted(locks.forceRelease(key, { owner: owners, by }));
  const text = answer === 'held by another' ? 'held by another one by now: nothing was done' : answer;
  terminal.write(json ? `${JSON.stringify({ key, answer })}\n` : `"${escapeUnprintable(key)}": ${text}\n`);
  return answer === 'released' ? FOUND : NOTHING;
};

function systemUser(): string {
  try {
    return userInfo().username || NAMELESS;
  } catch {
    // In a container the user id may have no name, and `userInfo` then throws.
    return NAMELESS;
  }
}

export const COMMANDS: Readonly<Record<CommandName, Run>> = { ls, inspect, watch, release };

/** Runs one command, and returns the exit code of the process. */
type Run = (locks: LockService, command: Command, terminal: Terminal) => Promise<number>;

interface Found {
  /** Sorted by how long the locks are held, the longest first. */
  readonly found: readonly LockInspection[];
  /** For each key that cannot be read, the reason. */
  readonly unreadable: ReadonlyMap<string, string>;
  /** The error that ended the listing before its last page, if there was one. */
  readonly failure: LockStoreError | undefined;
}

async function findAll(locks: LockService, command: Command, terminal: Terminal): Promise<Found> {
  const found = new Map<string, LockInspection>();
  const unreadable = new Map<string, string>();
  let cursor: string | undefined;
  let failure: LockStoreError | undefined;
  do {
    const options = { prefix: command.key, cursor, limit: PAGE };
    const page = await terminal.unlessInterrupted(locks.list(options)).catch((error: unknown) => {
      if (!(error instanceof LockStoreError)) throw error;
      failure = error;
      return NO_PAGE;
    });
    // A page of Redis may repeat keys of an earlier page.
    for (const entry of page.entries) found.set(entry.key, entry);
    for (const { key, message } of page.unreadable) unreadable.set(key, message);
    ({ cursor } = page);
  } while (cursor !== undefined);
  return { found: [...found.values()].sort(oldestFirst), unreadable, failure };
}

const NO_PAGE: LockPage = { entries: [], unreadable: [], cursor: undefined };

/** Reads the key of the command. If nobody holds it or waits for it, prints that and returns `undefined`. */
async function findOne(
  locks: LockService,
  command: Command,
  terminal: Terminal,
): Promise<LockInspection | undefined> {
  const found = (await terminal.unlessInterrupted(locks.inspect(command.key))) ?? undefined;
  if (!found) terminal.complain(`Nobody holds "${escapeUnprintable(command.key)}" or waits for it.`);
  return found;
}

function unreadableText(key: string, message: string): string {
  return `"${escapeUnprintable(key)}" cannot be read: ${escapeUnprintable(message)}`;
}

function jsonOf(lock: LockInspection): string {
  return `${JSON.stringify(lockView(lock, timeOfDay(systemClock)))}\n`;
}

function changeText({ json }: Command, key: string, lock: LockInspection | undefined): string {
  const now = timeOfDay(systemClock);
  if (json)
    return `${JSON.stringify({ at: new Date(now), ...(lock ? lockView(lock, now) : { key, holders: [], waiting: [] }) })}\n`;
  return `${new Date(now).toTimeString().slice(0, 8)}  ${escapeUnprintable(key)}  ${lock ? stateText(lock) : 'free'}\n`;
}

const GAP = '  ';
const MIN_WIDTH = 6;

/** Formats rows as a table. If a line would be wider than `width`, cuts the widest columns, but none below `MIN_WIDTH`. */
export function tableOf(rows: readonly (readonly string[])[], width: number): string[] {
  const widths = (rows[0] ?? []).map((_, column) => maxOf(rows.map((row) => row[column]?.length ?? 0)));
  let over = widths.reduce((sum, it) => sum + it + GAP.length, -GAP.length) - width;
  while (over > 0 && maxOf(widths) > MIN_WIDTH) {
    const widest = widths.indexOf(maxOf(widths));
    widths[widest] = (widths[widest] ?? 0) - 1;
    over -= 1;
  }
  return rows.map((row) =>
    row
      .map((cell, column) => fit(cell, widths[column] ?? 0))
      .join(GAP)
      .trimEnd(),
  );
}

function fit(text: string, width: number): string {
  return text.length <= width ? text.padEnd(width) : `${text.slice(0, width - 1)}…`;
}

function durationText(ms: number): string {
  if (ms === Infinity) return 'no end';
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

/** A holder as text: `shop on pod-7, process 4711 (GoodsController.purchase)`. */
function holderText({ owner, client, site }: LockHolder): string {
  const who = client
    ? `${client.application} on ${client.host}, process ${client.process}`
    : `owner ${owner}`;
  return escapeUnprintable(site === undefined ? who : `${who} (${site})`);
}

/** Who holds a key, how many wait, and the rest of the lease, in one line. */
function stateText({ heldBy, pending, remainingMs }: LockInspection): string {
  const waiting = `${pending.length} waiting`;
  if (heldBy.length === 0) return `held by nobody, ${waiting}`;
  return `held by ${heldBy.map(holderText).join('; ')}, ${waiting}, lease ${durationText(remainingMs)}`;
}

const TABLE_HEAD = ['KEY', 'MODE', 'HOLDER', 'HELD', 'WAITING', 'LEASE'];

function tableRow({ key, mode, heldBy, pending, remainingMs }: LockInspection): string[] {
  const [first, ...others] = heldBy;
  const holder = first ? holderText(first) + (others.length > 0 ? `, and ${others.length} more` : '') : '';
  const held = first?.heldMs === undefined ? '' : durationText(first.heldMs);
  return [
    escapeUnprintable(key),
    mode ?? 'free',
    holder,
    held,
    String(pending.length),
    durationText(remainingMs),
  ];
}
