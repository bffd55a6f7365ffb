import type { Cluster, Command, Redis } from 'ioredis';
import { withoutContext } from '../../common/promises.js';
import { type Arguments, asBulk, type CommandReply, type WireKeys } from '../client.js';
import { findIoredis } from './options.js';

/** Passed to the constructor of ioredis in place of the arguments, because it would copy and inspect each. `EvalSha` sets them itself. */
const NONE: string[] = [];
const OPTIONS = { replyEncoding: 'utf8' } as const;

/** The members of ioredis' `Command`, with those that its types keep private. */
interface OpenCommand extends Omit<Pick<Command, keyof Command>, 'toWritable'> {
  promise: Promise<unknown>;
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
  toWritable(socket?: object): string | Buffer;
  initPromise(): void;
  /** Returns a function that decodes a reply, ends the timers of the command and passes the reply on. */
  _convertValue?(pass: (value: unknown) => void): (value: unknown) => void;
  /** Not in the first releases of ioredis 5. */
  _clearTimers?(): void;
}

type OpenCommandClass = new (...args: ConstructorParameters<typeof Command>) => OpenCommand;
type EvalShaClass = new (sha: string, keys: WireKeys, args: Arguments) => OpenCommand;

/**
 * Makes the class of the `EVALSHA` commands of `client`. Their RESP text is built from the prepared text of `WireKeys`, and their reply is a
 * `DirectReply`.
 *
 * @returns `undefined` for a client of another copy of ioredis, which takes only commands of its own
 */
export function evalShaClassFor(client: Redis | Cluster): EvalShaClass | undefined {
  const ioredis = findIoredis();
  if (!ioredis || !(client instanceof ioredis.Redis || client instanceof ioredis.Cluster)) return undefined;
  const Base = ioredis.Command as unknown as OpenCommandClass;
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

    /** ioredis calls this in its constructor, and returns `promise` to whoever sends the command. */
    override initPromise(): void {
      if (!this._convertValue) return super.initPromise();
      const reply = new DirectReply();
      this.promise = reply as unknown as Promise<unknown>;
      this.resolve = this._convertValue((value) => reply.resolve(value));
      this.reject = (error) => {
        this._clearTimers?.();
        reply.reject(error);
      };
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

/**
 * The reply to one command. Calls its listener in the turn of the event loop in which the reply arrives. A promise would make two more
 * objects for each command, which takes a seventh of the time of a lock (docs/decisions/0012). But ioredis passes it on as the promise of
 * its command, and tracing tools wait for that, so it becomes a promise for everybody who uses it as one.
 *
 * It is made of fields only: V8 would allocate a list of listeners in its old generation, as it does with the arguments above.
 */
export class DirectReply implements CommandReply, PromiseLike<unknown> {
  private state: 'awaited' | 'resolved' | 'rejected' = 'awaited';
  /** The value, or the error. */
  private outcome: unknown;
  private onValue: ((value: unknown) => void) | undefined;
  private onError: ((error: unknown) => void) | undefined;
  private promise: Promise<unknown> | undefined;
  private settlePromise: (() => void) | undefined;

  /** Sets the only listener; others use the promise. */
  listen(onValue: (value: unknown) => void, onError: (error: unknown) => void): void {
    this.onValue = onValue;
    this.onError = onError;
    // A command that ioredis refuses is settled before anybody listens. Its listener may send the next one, so it is not called from here.
    if (this.state !== 'awaited') queueMicrotask(() => this.tell());
  }

  resolve(value: unknown): void {
    this.settle('resolved', value);
  }

  reject(error: unknown): void {
    this.settle('rejected', error);
  }

  // oxlint-disable-next-line no-thenable -- ioredis returns it where it would return a promise
  get then(): Promise<unknown>['then'] {
    const promise = this.asPromise();
    return promise.then.bind(promise);
  }

  get catch(): Promise<unknown>['catch'] {
    const promise = this.asPromise();
    return promise.catch.bind(promise);
  }

  get finally(): Promise<unknown>['finally'] {
    const promise = this.asPromise();
    return promise.finally.bind(promise);
  }

  private asPromise(): Promise<unknown> {
    return (this.promise ??= new Promise((resolve, reject) => {
      this.settlePromise = () =>
        this.state === 'resolved' ? resolve(this.outcome) : reject(this.outcome as Error);
      if (this.state !== 'awaited') this.settlePromise();
    }));
  }

  private settle(state: 'resolved' | 'rejected', outcome: unknown): void {
    if (this.state !== 'awaited') return;
    this.state = state;
    this.outcome = outcome;
    if (this.onValue) this.tell();
    this.settlePromise?.();
  }

  /** Forgets the listener: a reply that has reached the old generation would keep the command, and all later ones, until it is collected. */
  private tell(): void {
    const { state, outcome, onValue, onError } = this;
    this.onValue = this.onError = undefined;
    const listener = state === 'resolved' ? onValue : onError;
    // Outside of any async context: the socket may have been opened in that of a request.
    withoutContext(() => listener?.(outcome));
  }
}
