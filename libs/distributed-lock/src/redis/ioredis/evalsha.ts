import type { Readable, Writable } from 'node:stream';
import type { Cluster, Command, Redis } from 'ioredis';
import { type Clock, giveUpAfter } from '../../common/clock.js';
import { ServerProtocol } from '../../connection/kept-connection.js';
import { type Arguments, asBulk, type WireKeys } from '../client.js';
import { findIoredis } from './url.js';

/** Passed to the constructor of ioredis in place of the arguments, because it would copy and inspect each. `EvalSha` sets them itself. */
const NONE: string[] = [];
const OPTIONS = { replyEncoding: 'utf8' } as const;

type EvalShaClass = new (sha: string, keys: WireKeys, args: Arguments) => Command;

/**
 * The class of the command by which `client` runs a script by its hash.
 *
 * @returns `undefined` for a client of another copy of ioredis, which takes only commands of its own
 */
export function evalShaClassFor(client: Redis | Cluster): EvalShaClass | undefined {
  const ioredis = findIoredis();
  const isKnown = ioredis && (client instanceof ioredis.Redis || client instanceof ioredis.Cluster);
  return isKnown ? evalShaOf(ioredis.Command) : undefined;
}

/** Makes the class of an `EVALSHA` command whose RESP text is built from the prepared text of `WireKeys`. */
export function evalShaOf(Base: typeof Command): EvalShaClass {
  return class EvalSha extends Base {
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

const known = new WeakMap<Writable, Corked>();
let corked: Corked[] = [];
let flushesAtExit = false;

/**
 * Sends the commands that are written to `stream` in this turn of the event loop in few system calls
 * (`npm run bench -- --only spread`).
 *
 * A process that exits in the same turn still sends them: a release is on its way when its call has settled.
 */
export function writeTogether(stream: Writable): void {
  const its = corkedOf(stream);
  if (its.commands === MAX_TOGETHER) uncork(its);
  if (its.commands === 0) cork(its);
  its.commands += 1;
}

/** A stream, and how many commands it keeps back while it is corked. */
interface Corked {
  readonly stream: Writable;
  commands: number;
}

/** Sends the commands that were written to `stream` in this turn so far. */
export function writeNow(stream: Writable): void {
  uncork(corkedOf(stream));
}

function corkedOf(stream: Writable): Corked {
  let its = known.get(stream);
  if (!its) known.set(stream, (its = { stream, commands: 0 }));
  return its;
}

function cork(its: Corked): void {
  if (!flushesAtExit) process.once('exit', flush);
  flushesAtExit = true;
  if (corked.length === 0) process.nextTick(flush);
  corked.push(its);
  its.stream.cork();
}

function flush(): void {
  const all = corked;
  corked = [];
  all.forEach(uncork);
}

function uncork(its: Corked): void {
  if (its.commands === 0) return;
  its.commands = 0;
  its.stream.uncork();
}

const REDIS = new ServerProtocol({
  server: 'Redis',
  // The first byte of every reply of Redis is one of these types, of RESP 2 or 3.
  reply: /^[+\-:$*_#,(!=%~>|]/,
  tls: 'the URL of a Redis with TLS starts with rediss:',
});

const NO_PASSWORD = 'Redis asks for a password: give it in the URL, as redis://:password@host';

/**
 * Ends a connection that the server has accepted and does not answer, because ioredis waits without a limit between `connect` and
 * `ready`. The error says what answers, if that is no Redis.
 *
 * @param silenceMs how long the server may send nothing
 */
export function watchHandshake(client: Redis, clock: Clock, silenceMs: number): void {
  client.on('connect', () => {
    const { stream } = client;
    let problem: string | undefined = REDIS.closedUnanswered();
    const fail = (why: string): void => {
      problem = why;
      stream.destroy();
    };
    const onFirst = (bytes: Buffer): void => {
      problem = undefined;
      if (bytes.toString('latin1').startsWith('-NOAUTH')) fail(NO_PASSWORD);
      const strange = REDIS.strangeReply(bytes);
      if (strange) fail(strange);
    };
    const onClosed = (): void => {
      end();
      // Emit this error before ioredis emits its own, which does not say what kind of server answered.
      if (problem) client.emit('error', new Error(problem, { cause: stream.errored ?? undefined }));
    };
    const cancel = afterSilence(stream, { clock, ms: silenceMs }, () =>
      fail(`the server took the connection and sent nothing for ${silenceMs} ms`),
    );
    const end = (): void => {
      cancel();
      stream.removeListener('data', onFirst);
      client.removeListener('ready', end);
      client.removeListener('close', onClosed);
    };
    stream.once('data', onFirst);
    client.on('ready', end);
    client.on('close', onClosed);
  });
}

/**
 * Runs `task` as soon as nothing has arrived on `stream` for `ms`. Several round trips may follow each other meanwhile, and each of
 * them may take that long.
 *
 * @returns a function that cancels it
 */
export function afterSilence(
  stream: Readable,
  { clock, ms }: { readonly clock: Clock; readonly ms: number },
  task: () => void,
): () => void {
  let cancel = (): void => undefined;
  const end = (): void => {
    cancel();
    stream.removeListener('data', wait);
  };
  function wait(): void {
    cancel();
    cancel = giveUpAfter(clock, ms, () => {
      end();
      task();
    });
  }
  wait();
  stream.on('data', wait);
  return end;
}
