import { createHash } from 'node:crypto';
import * as lua from '../../../../libs/distributed-lock/src/redis/scripts/lua.generated.js';
import { endOfReply } from '../../redis/resp/end-of-reply.js';

const SCRIPTS = { ...lua } as Readonly<Record<string, string>>;
const NAMES = new Map(
  Object.entries(SCRIPTS).map(([name, source]) => [createHash('sha1').update(source).digest('hex'), name]),
);
const NAMES_BY_SOURCE = new Map(Object.entries(SCRIPTS).map(([name, source]) => [source, name]));

const OFTEN = 'acquire renew release';
const HANDSHAKE = 'hello info script time rights subscribe';
const OTHERS = 'renewAll inspect ping wait';
const MESSAGES = ['granted', 'granted', 'contended', 'lost', 'recheck'];

/** The kinds of messages between the store and a server, the usual ones more than once; `re:` is the reply to a command. */
export const REDIS_KINDS = [
  'connect',
  ...[OFTEN, OFTEN, OFTEN, HANDSHAKE, OTHERS].flatMap((names) => withReplies(names.split(' '))),
  ...MESSAGES,
];

/** Kinds at which scenes alone aim. */
export const REDIS_SCENE_KINDS = withReplies(['client']);

/** Requests that change a lock, the usual ones more than once. */
export const REDIS_WRITES = [...OFTEN.split(' '), ...OFTEN.split(' '), 'renewAll'];

function withReplies(commands: readonly string[]): readonly string[] {
  return commands.flatMap((name) => [name, `re:${name}`]);
}

/** What a client calls this command: the name of its script, or of the command. */
export function kindOfCommand(bytes: string): string {
  const [name = '', second = '', third] = wordsOf(bytes, 3);
  const command = name.toLowerCase();
  const names = { evalsha: NAMES, eval: NAMES_BY_SOURCE }[command];
  const script = names?.get(second) ?? command;
  // A renewal of one plain lock is a renewal as any other. With more keys than the five of one lock it is one of several.
  if (script === 'renewPlain') return third === '5' ? 'renew' : 'renewAll';
  return script;
}

/** What a message that a server sends by itself says first: `granted`. */
export function kindOfMessage(bytes: string): string {
  const [, , text = ''] = wordsOf(bytes, 3);
  return text.split(' ')[0] ?? '';
}

/** The commands in what a client has written at once, each as the client wrote it. */
export function commandsIn(bytes: string): readonly string[] {
  const commands: string[] = [];
  for (let at = 0; at < bytes.length;) {
    // Commands have the form of replies. A client writes whole commands.
    const end = endOfReply(bytes, at) ?? bytes.length;
    commands.push(bytes.slice(at, end));
    at = end;
  }
  return commands;
}

function wordsOf(bytes: string, most: number): readonly string[] {
  const words: string[] = [];
  let at = bytes.indexOf('\r\n') + 2;
  while (words.length < most && bytes[at] === '$') {
    const start = bytes.indexOf('\r\n', at) + 2;
    const length = Number(bytes.slice(at + 1, start - 2));
    words.push(bytes.slice(start, start + length));
    at = start + length + 2;
  }
  return words;
}
