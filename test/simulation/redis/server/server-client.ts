import { syntaxError, type Command } from '../commands/command.js';
import { checked, named } from '../commands/lookup.js';
import { COMMANDS } from '../commands/table.js';
import { encode, type Protocol } from '../resp/encode.js';
import { ErrorReply, OK, type Reply } from '../resp/reply.js';
import { RequestReader } from '../resp/request-reader.js';
import { clientCommand, WRITTEN, type ClientSide } from './client-commands.js';
import type { Serving } from './serving.js';
import { Subscriptions } from './subscriptions.js';

const WHILE_SUBSCRIBED = new Set(['subscribe', 'unsubscribe', 'ping', 'quit', 'reset']);

/** One connection, as the server sees it. Commands are executed one after the other, and none while a `WAIT` is open. */
export class ServerClient implements ClientSide {
  protocol: Protocol = 2;
  readonly subscriptions: Subscriptions;
  private readonly reader = new RequestReader();
  private readonly unexecuted: string[][] = [];
  /** The length of the journal after its last write. */
  private written = 0;
  private isWaiting = false;
  private isEnding = false;
  /** Its connection leads to a server that is a replica by now. */
  isOfReplica = false;

  /**
   * @param send takes what the server writes, as a byte string
   * @param end closes the connection
   */
  constructor(
    readonly id: number,
    private readonly serving: Serving,
    private readonly send: (bytes: string) => void,
    private readonly end: () => void,
  ) {
    this.subscriptions = new Subscriptions(serving.channels, (reply) => this.write(reply));
  }

  get scripting() {
    return this.serving.scripting;
  }

  get isReplica(): boolean {
    return this.isOfReplica || this.serving.refusals.isReplica;
  }

  /** @param bytes what the client has written, as a byte string */
  receive(bytes: string): void {
    this.unexecuted.push(...this.reader.read(bytes));
    this.executeAll();
  }

  /** The connection is closed. */
  drop(): void {
    this.isEnding = true;
    this.subscriptions.drop();
  }

  info(): string {
    return this.serving.info();
  }

  role(): Reply {
    return this.serving.role();
  }

  quit(): void {
    this.write(OK);
    this.isEnding = true;
    this.end();
  }

  wait(least: number, ms: number): void {
    const { replicas, after } = this.serving;
    const length = this.written;
    if (!(least >= 0) || !(ms >= 0)) throw syntaxError();
    if (replicas.countAt(length) >= least) return this.write(replicas.countAt(length));
    this.isWaiting = true;
    const settle = (): void => {
      stop();
      cancel();
      this.isWaiting = false;
      if (this.isEnding) return;
      const count = replicas.countAt(length);
      if (count < least) this.serving.noteTooFew();
      this.write(count);
      this.executeAll();
    };
    const stop = replicas.wait(length, least, settle);
    const cancel = ms > 0 ? after(ms, settle) : () => undefined;
  }

  private executeAll(): void {
    while (!this.isWaiting && !this.isEnding) {
      const words = this.unexecuted.shift();
      if (!words) return;
      if (words.length > 0) this.execute(words);
    }
  }

  private execute(words: readonly string[]): void {
    const { serving } = this;
    serving.noteCommand(this.id, words);
    let reply: Reply | typeof WRITTEN;
    try {
      reply = this.isOfReplica ? serving.refusals.asReplica(() => this.run(words)) : this.run(words);
    } catch (error) {
      if (!(error instanceof ErrorReply)) throw error;
      reply = error;
    }
    if (this.isOfReplica && isReadOnly(reply)) serving.noteReadOnly();
    const length = serving.commit();
    if (length !== undefined) this.written = length;
    if (reply !== WRITTEN) this.write(reply);
  }

  private run(words: readonly string[]): Reply | typeof WRITTEN {
    const { serving } = this;
    const command = named(words);
    const { name, args } = command;
    const ofClient = clientCommand(name);
    const ofData = COMMANDS.get(name);
    const refusal = serving.refusals.refusal(name, checked(ofClient ?? ofData, words, command));
    if (refusal) throw refusal;
    if (this.protocol === 2 && this.subscriptions.count > 0) {
      if (name === 'ping') return ['pong', args[0] ?? ''];
      if (!WHILE_SUBSCRIBED.has(name)) throw subscribersOnly(name);
    }
    if (ofClient) return ofClient.run(args, this);
    return (ofData as Command).run(args, serving);
  }

  private write(reply: Reply): void {
    if (!this.isEnding) this.send(encode(reply, this.protocol));
  }
}

function isReadOnly(reply: Reply | typeof WRITTEN): boolean {
  return reply instanceof ErrorReply && reply.message.startsWith('READONLY');
}

function subscribersOnly(name: string): ErrorReply {
  return new ErrorReply(
    `ERR Can't execute '${name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context`,
  );
}
