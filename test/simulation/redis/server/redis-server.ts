import { Channels } from '../data/channels.js';
import { Journal } from '../data/journal.js';
import { Keyspace } from '../data/keyspace.js';
import { Replicas } from '../data/replicas.js';
import { msOf } from '../commands/keys.js';
import { checked, named } from '../commands/lookup.js';
import { COMMANDS } from '../commands/table.js';
import type { Reply } from '../resp/reply.js';
import type { ScriptEngine } from '../lua/script-engine.js';
import { Refusals } from './refusals.js';
import { Scripting } from './scripting.js';
import { ServerClient } from './server-client.js';
import type { Serving } from './serving.js';

/** What a server gets from outside. */
export interface ServerEnvironment {
  /** Its clock: time of day in microseconds. It may be stepped. */
  micros(): number;
  /** 40 hexadecimal digits. */
  newRunId(): string;
  readonly after: (ms: number, run: () => void) => () => void;
  /** Runs its scripts; default: an interpreter, which knows all of Lua. */
  readonly engine?: ScriptEngine;
  /** The data has changed: the journal has this length now. */
  onWrite?(length: number): void;
  /** A client was told that its connection leads to a replica. */
  onReadOnly?(): void;
  /** Fewer replicas had a write in time than its client waited for. */
  onTooFew?(): void;
  /** A client has sent a command, or has left. */
  onCommand?(client: number, words: readonly string[] | 'left'): void;
}

/**
 * A Redis server in memory: version 7.0, one database, no cluster. It does nothing by itself: it is told what its clients
 * write, and answers at once.
 */
export class RedisServer implements Serving {
  readonly refusals = new Refusals();
  readonly replicas: Replicas;
  readonly journal = new Journal();
  channels = new Channels();
  data: Keyspace;
  scripting: Scripting;
  runId: string;
  /** Counts how often its data went back to an earlier state. */
  epoch = 0;
  private clients = new Set<ServerClient>();
  private lastId = 0;
  /** While a script runs. */
  private scriptMicros: number | undefined;

  constructor(
    private readonly environment: ServerEnvironment,
    replicas = 0,
  ) {
    this.replicas = new Replicas(replicas);
    this.data = new Keyspace(this.now);
    this.scripting = new Scripting(this, this.refusals, this.atOneMoment, environment.engine);
    this.runId = environment.newRunId();
  }

  get after(): Serving['after'] {
    return this.environment.after;
  }

  readonly micros = (): number => this.scriptMicros ?? this.environment.micros();

  /** As Redis does: its clock stands still while a script runs. */
  readonly atOneMoment = <Result>(script: () => Result): Result => {
    this.scriptMicros = this.environment.micros();
    try {
      return script();
    } finally {
      this.scriptMicros = undefined;
    }
  };

  /** Executes one command that scripts may call, too. @throws ErrorReply */
  execute(words: readonly string[]): Reply {
    const { name, args } = named(words);
    const reply = checked(COMMANDS.get(name), words).run(args, this);
    this.commit();
    return reply;
  }

  /** A new connection. @param send takes what the server writes @param end is called when the server closes it */
  connect(send: (bytes: string) => void, end: () => void): ServerClient {
    const client = new ServerClient(++this.lastId, this, send, end);
    this.clients.add(client);
    return client;
  }

  disconnect(client: ServerClient): void {
    if (this.clients.delete(client)) this.environment.onCommand?.(client.id, 'left');
    client.drop();
  }

  /** Another server has become the master, with the same data. Connections that are open lead to this one, which follows it. */
  moveMaster(): void {
    for (const client of this.clients) client.isOfReplica = true;
  }

  /** Its process ends. What it comes back with is decided by `restart`. */
  crash(): void {
    for (const client of this.clients) client.drop();
    this.clients = new Set();
    this.channels = new Channels();
  }

  /** A new process, or a replica that takes over, with the first `length` changes; 0 is an empty server. */
  restart(length: number): void {
    this.crash();
    this.restore(length);
    this.scripting = new Scripting(this, this.refusals, this.atOneMoment, this.environment.engine);
    this.runId = this.environment.newRunId();
  }

  /** Its data is what it was after the first `length` changes, while its connections live on. */
  restore(length: number): void {
    this.epoch += 1;
    this.data = this.journal.restore(length, this.now);
    this.replicas.cut(this.journal.length);
  }

  noteCommand(client: number, words: readonly string[]): void {
    this.environment.onCommand?.(client, words);
  }

  noteReadOnly(): void {
    this.environment.onReadOnly?.();
  }

  noteTooFew(): void {
    this.environment.onTooFew?.();
  }

  commit(): number | undefined {
    const before = this.journal.length;
    this.journal.add(this.data.takeWritten());
    const { length } = this.journal;
    if (length === before) return undefined;
    this.environment.onWrite?.(length);
    return length;
  }

  info(): string {
    const { isLoading, isReplica } = this.refusals;
    const fields = {
      redis_version: '7.0.15',
      redis_mode: 'standalone',
      run_id: this.runId,
      loading: Number(isLoading),
      role: isReplica ? 'slave' : 'master',
      ...(isReplica && { master_link_status: 'up' }),
      connected_slaves: this.replicas.count,
    };
    const lines = Object.entries(fields).map(([name, value]) => `${name}:${value}\r\n`);
    return `# Server\r\n${lines.join('')}`;
  }

  role(): Reply {
    const { length } = this.journal;
    return this.refusals.isReplica ? ['slave', 'master', 6379, 'connected', length] : ['master', length, []];
  }

  private readonly now = (): number => msOf(this.micros());
}
