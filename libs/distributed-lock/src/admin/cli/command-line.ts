import { parseArgs } from 'node:util';
import { nearestName } from '../../port/option-checks.js';
import { STORES } from '../../stores.js';

const URLS = STORES.flatMap(({ command }) => command?.usage ?? []).join(' ');

export const USAGE = `nestjs-distributed-lock: finds and frees locks in the store of an application

  nestjs-distributed-lock ls [text]        lists the keys that are held or waited for, and begin with the text
  nestjs-distributed-lock inspect <key>    shows who holds a key, and who waits for it
  nestjs-distributed-lock watch [text]     writes a line for each change of such a key, until Ctrl-C
  nestjs-distributed-lock release <key>    takes the lock from its holder, after a question

  --store <url>     ${URLS}
                    Default: the variable LOCK_STORE, which the list of processes does not show
  --prefix <text>   keyPrefix of the application
  --table <name>    the table of the locks in a SQL database, if it is not nest_lock
  --root <path>     root of the locks in etcd or ZooKeeper, if the application names one
  --json            one JSON object a line
  --yes             releases without a question
  --owner <id>      releases only if this owner still holds the key; inspect --json shows it; may be repeated
  --by <name>       who releases, for the message of the holder; default: the user of the system
  --timeout <ms>    how long the store may take to answer; default 2000

WAITING counts one for each other process that waits. No store knows of callers in the holder's own process.
Exit codes: 0 done, 1 nothing found, 2 wrong use,
3 the store was not reached or refuses, a key is unreadable, or the list is not whole,
4 the output could not be written, 130 interrupted.
`;

export type CommandName = 'ls' | 'inspect' | 'watch' | 'release';

export interface Command {
  readonly name: CommandName;
  /** The key. For `ls` and `watch`: the prefix of the keys to show. */
  readonly key: string;
  readonly store: string;
  readonly prefix: string;
  readonly table: string | undefined;
  readonly root: string | undefined;
  readonly json: boolean;
  readonly yes: boolean;
  /** `release` takes the lock from these owners only. `undefined`: from those that hold it when the command looks. */
  readonly owners: readonly string[] | undefined;
  readonly by: string | undefined;
  readonly timeoutMs: number;
}

/** The command line contains an unknown command or option, or lacks something that is required. */
export class WrongUse extends Error {}

const NAMES: readonly CommandName[] = ['ls', 'inspect', 'watch', 'release'];
const DEFAULT_TIMEOUT_MS = 2000;
const MIN_TIMEOUT_MS = 10;
const MAX_TIMEOUT_MS = 600_000;
const OPTIONS = {
  store: { type: 'string' },
  prefix: { type: 'string', default: '' },
  table: { type: 'string' },
  root: { type: 'string' },
  json: { type: 'boolean', default: false },
  yes: { type: 'boolean', default: false },
  owner: { type: 'string', multiple: true },
  by: { type: 'string' },
  timeout: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

/**
 * Parses the command line.
 *
 * @throws WrongUse with a hint what to write instead
 */
export function readCommandLine(
  words: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Command | 'help' {
  const { values, positionals } = parse(words);
  const [name = '', key = '', ...more] = positionals;
  if (values.help || (name === '' && words.length === 0)) return 'help';
  if (!isName(name)) throw new WrongUse(`${unknownCommand(name)} --help shows all.`);
  if (more.length > 0) throw new WrongUse(`${name} takes one key. Put a key with spaces in quotes.`);
  if (key === '' && (name === 'inspect' || name === 'release')) {
    throw new WrongUse(`${name} needs a key: nestjs-distributed-lock ${name} goods:42`);
  }
  const store = values.store ?? env['LOCK_STORE'] ?? '';
  if (store === '')
    throw new WrongUse('Name the store: --store redis://localhost, or the variable LOCK_STORE.');
  const { prefix, table, root, json, yes, owner: owners, by } = values;
  if (name !== 'release' && (owners || by !== undefined)) {
    throw new WrongUse(`--owner and --by are for release, and ${name} releases nothing.`);
  }
  if (owners?.includes('') || by === '') throw new WrongUse('--owner and --by need a text.');
  return {
    name,
    key,
    store,
    prefix,
    table,
    root,
    json,
    yes,
    owners,
    by,
    timeoutMs: timeoutOf(values.timeout),
  };
}

function parse(words: readonly string[]) {
  try {
    return parseArgs({ args: [...words], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new WrongUse(`${(error as Error).message.split('. ')[0]}. --help shows all.`);
  }
}

function isName(name: string): name is CommandName {
  return (NAMES as readonly string[]).includes(name);
}

function unknownCommand(name: string): string {
  if (name === '') return 'Name a command: ls, inspect, watch or release.';
  const nearest = nearestName(name, NAMES);
  return `There is no command "${name}"; ${nearest ? `did you mean ${nearest}?` : 'there are ls, inspect, watch and release.'}`;
}

function timeoutOf(text: string | undefined): number {
  if (text === undefined) return DEFAULT_TIMEOUT_MS;
  const ms = Number(text);
  if (Number.isInteger(ms) && ms >= MIN_TIMEOUT_MS && ms <= MAX_TIMEOUT_MS) return ms;
  throw new WrongUse(`--timeout is a number of ms from ${MIN_TIMEOUT_MS} to ${MAX_TIMEOUT_MS}.`);
}
