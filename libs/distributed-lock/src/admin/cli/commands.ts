import { userInfo } from 'node:os';
import type { LockInspection } from '../../lock/lock.js';
import type { LockService } from '../../lock/lock.service.js';
import { printable } from '../../redaction/printable.js';
import { systemClock, timeOfDay } from '../../time/clock.js';
import { lockView } from '../lock-view.js';
import { WrongUse, type Command, type CommandName } from './command-line.js';
import { tableOf } from './table.js';
import type { Terminal } from './terminal.js';
import { durationText, holderText, tableRow, stateText, TABLE_HEAD } from './words.js';

const [FOUND, NOTHING, REFUSED] = [0, 1, 3];
const PAGE = 1000;
const WATCH_EVERY_MS = 1000;
const NAMELESS = 'the command line';

const ls: Run = async (locks, command, terminal) => {
  const { found, unreadable } = await findAll(locks, command, terminal);
  if (command.json) terminal.write(found.map(jsonOf).join(''));
  else if (found.length > 0) {
    terminal.write(`${tableOf([TABLE_HEAD, ...found.map(tableRow)], terminal.width).join('\n')}\n`);
  } else if (unreadable.size === 0) terminal.complain('No key is held or waited for.');
  for (const [key, message] of unreadable) terminal.complain(unreadableText(key, message));
  if (unreadable.size > 0) return REFUSED;
  return found.length > 0 ? FOUND : NOTHING;
};

const inspect: Run = async (locks, command, terminal) => {
  const found = await findOne(locks, command, terminal);
  if (!found) return NOTHING;
  const { key, mode = 'free', heldBy, pending, remainingMs, fencingToken } = found;
  const lines = [
    `${printable(key)}: ${mode}, token ${fencingToken ?? 'unknown'}, lease ${durationText(remainingMs)}`,
    ...heldBy.map(
      (holder) =>
        `held by  ${holderText(holder)}${holder.heldMs === undefined ? '' : ` for ${durationText(holder.heldMs)}`}`,
    ),
    ...pending.map((owner) => `waiting  owner ${printable(owner)}`),
  ];
  terminal.write(command.json ? jsonOf(found) : `${lines.join('\n')}\n`);
  return FOUND;
};

/** One line for each key whose holders or queue have changed. Ends by Ctrl-C only. */
const watch: Run = async (locks, command, terminal) => {
  const shown = new Map<string, string>();
  const complained = new Set<string>();
  for (;;) {
    const { found, unreadable } =
      command.key === ''
        ? await findAll(locks, command, terminal)
        : { found: await findKey(locks, command, terminal), unreadable: NONE };
    for (const [key, message] of unreadable) {
      if (complained.has(key)) continue;
      complained.add(key);
      terminal.complain(unreadableText(key, message));
    }
    const now = new Map(found.map((it) => [it.key, it]));
    for (const key of shown.keys()) {
      if (now.has(key)) continue;
      shown.delete(key);
      terminal.write(changeText(command, key, undefined));
    }
    for (const [key, it] of now) {
      const state = JSON.stringify([it.holders, it.pending.length, it.mode]);
      if (shown.get(key) === state) continue;
      shown.set(key, state);
      terminal.write(changeText(command, key, it));
    }
    await terminal.pause(WATCH_EVERY_MS);
  }
};

const release: Run = async (locks, command, terminal) => {
  const { key, yes, json, by = systemUser() } = command;
  const found = await findOne(locks, command, terminal);
  if (!found) return NOTHING;
  // Whoever holds the key by the time of the answer was not in the question.
  const { owners = found.holders } = command;
  const losing = found.heldBy.filter(({ owner }) => owners.includes(owner));
  if (!yes && (losing.length > 0 || command.owners === undefined)) {
    if (!terminal.canAsk) throw new WrongUse('release asks first, and nobody can answer here. Add --yes.');
    terminal.complain(
      `"${printable(key)}" is ${stateText({ ...found, heldBy: losing })}.\nA holder that is alive is told, and its work goes on until it looks. Then two may write, unless the resource refuses the smaller fencing token.`,
    );
    if (!(await terminal.ask('Release it by force?'))) return NOTHING;
  }
  const answer = await terminal.unlessInterrupted(locks.forceRelease(key, { owner: owners, by }));
  const text = answer === 'held by another' ? 'held by another one by now: nothing was done' : answer;
  terminal.write(json ? `${JSON.stringify({ key, answer })}\n` : `"${printable(key)}": ${text}\n`);
  return answer === 'released' ? FOUND : NOTHING;
};

function systemUser(): string {
  try {
    return userInfo().username || NAMELESS;
  } catch {
    // The user of a container may have no name.
    return NAMELESS;
  }
}

export const COMMANDS: Readonly<Record<CommandName, Run>> = { ls, inspect, watch, release };

/** @returns the exit code */
type Run = (locks: LockService, command: Command, terminal: Terminal) => Promise<number>;

interface Found {
  readonly found: readonly LockInspection[];
  /** Why each of these keys cannot be read. */
  readonly unreadable: ReadonlyMap<string, string>;
}

const NONE: Found['unreadable'] = new Map();

async function findAll(locks: LockService, command: Command, terminal: Terminal): Promise<Found> {
  const found = new Map<string, LockInspection>();
  const unreadable = new Map<string, string>();
  let cursor: string | undefined;
  do {
    const options = { prefix: command.key, cursor, limit: PAGE };
    const page = await terminal.unlessInterrupted(locks.list(options));
    // On Redis a key may be in two pages.
    for (const entry of page.entries) found.set(entry.key, entry);
    for (const { key, message } of page.unreadable) unreadable.set(key, message);
    ({ cursor } = page);
  } while (cursor !== undefined);
  return { found: [...found.values()].sort((a, b) => (a.key < b.key ? -1 : 1)), unreadable };
}

async function findKey(locks: LockService, command: Command, terminal: Terminal): Promise<LockInspection[]> {
  const found = await terminal.unlessInterrupted(locks.inspect(command.key));
  return found ? [found] : [];
}

/** Says so when nobody holds the key or waits for it. */
async function findOne(
  locks: LockService,
  command: Command,
  terminal: Terminal,
): Promise<LockInspection | undefined> {
  const [found] = await findKey(locks, command, terminal);
  if (!found) terminal.complain(`Nobody holds "${printable(command.key)}" or waits for it.`);
  return found;
}

function unreadableText(key: string, message: string): string {
  return `"${printable(key)}" cannot be read: ${printable(message)}`;
}

function jsonOf(lock: LockInspection): string {
  return `${JSON.stringify(lockView(lock, timeOfDay(systemClock)))}\n`;
}

function changeText({ json }: Command, key: string, lock: LockInspection | undefined): string {
  const now = timeOfDay(systemClock);
  if (json)
    return `${JSON.stringify({ at: new Date(now), ...(lock ? lockView(lock, now) : { key, holders: [], waiting: [] }) })}\n`;
  return `${new Date(now).toTimeString().slice(0, 8)}  ${printable(key)}  ${lock ? stateText(lock) : 'free'}\n`;
}
