import type { Writable } from 'node:stream';
import type { Cluster, Command, Redis } from 'ioredis';
import { type Arguments, asBulk, type WireKeys } from '../client.js';
import { findIoredis } from './options.js';

/** Passed to the constructor of ioredis in place of the arguments, because it would copy and inspect each. `EvalSha` sets them itself. */
const NONE: string[] = [];
const OPTIONS = { replyEncoding: 'utf8' } as const;

type EvalShaClass = new (sha: string, keys: WireKeys, args: Arguments) => Command;

/**
 * Makes the class of the `EVALSHA` commands of `client`, whose RESP text is built from the prepared text of `WireKeys`.
 *
 * @returns `undefined` for a client of another copy of ioredis, which takes only commands of its own
 */
export function evalShaClassFor(client: Redis | Cluster): EvalShaClass | undefined {
  const ioredis = findIoredis();
  if (!ioredis || !(client instanceof ioredis.Redis || client instanceof ioredis.Cluster)) return undefined;
  return class EvalSha extends ioredis.Command {
    constructor(
      sha: string,
      private readonly wireKeys: WireKeys,
      args: Arguments,
    ) {
      super('evalsha', NONE, OPTIONS);
      const first = [sha, wireKeys.count];
      // Build the array by `concat`. V8 allocates an array literal in its old generation if earlier ones lived as long as a request, and
      // there it is collected late (docs/decisions/0012).
      this.args = first.concat(wireKeys.names, args.map(String));
    }

    override toWritable(): string {
      const { wireKeys } = this;
      const args = this.args as string[];
      const [sha = ''] = args;
      let text = `*${args.length + 1}\r\n$7\r\nevalsha\r\n${asBulk(sha)}${wireKeys.text}`;
      for (let i = 2 + wireKeys.names.length; i < args.length; i++) text += asBulk(args[i] as string);
      return text;
    }
  };
}

/** How many commands share a system call. With more, the server would wait for the last one before it could answer the first. */
const MAX_TOGETHER = 16;

/** A stream, and how many commands it keeps back while it is corked. */
interface Corked {
  readonly stream: Writable;
  commands: number;
}

const streams = new WeakMap<Writable, Corked>();
let corked: Corked[] = [];
let flushesAtExit = false;

/**
 * Sends the commands that are written to `stream` in this turn of the event loop in few system calls
 * (`npm run bench -- --only spread`).
 *
 * A process that exits in the same turn still sends them: a release is on its way when its call has settled.
 */
export function writeTogether(stream: Writable): void {
  const entry = entryOf(stream);
  if (entry.commands === MAX_TOGETHER) uncork(entry);
  if (entry.commands === 0) cork(entry);
  entry.commands += 1;
}

/** Sends the commands that were written to `stream` in this turn so far. */
export function writeNow(stream: Writable): void {
  uncork(entryOf(stream));
}

function entryOf(stream: Writable): Corked {
  let entry = streams.get(stream);
  if (!entry) streams.set(stream, (entry = { stream, commands: 0 }));
  return entry;
}

function cork(entry: Corked): void {
  if (!flushesAtExit) process.once('exit', flush);
  flushesAtExit = true;
  if (corked.length === 0) process.nextTick(flush);
  corked.push(entry);
  entry.stream.cork();
}

function flush(): void {
  const all = corked;
  corked = [];
  all.forEach(uncork);
}

function uncork(entry: Corked): void {
  if (entry.commands === 0) return;
  entry.commands = 0;
  entry.stream.uncork();
}
