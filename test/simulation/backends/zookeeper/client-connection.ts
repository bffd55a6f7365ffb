import { CODE } from '../../../../libs/distributed-lock/src/zookeeper/client/protocol.js';
import type { Listener, ServerEnd } from '../../network/connection.js';
import { handshakeReply, type Handshake } from './handshake.js';
import { kindOf } from './kinds.js';
import type { Outcome } from './decisions.js';
import { replyTo, writeChildren, writeFailure, writeResults, writeStat } from './replies.js';
import type { Reading, Request, WireRequest } from './requests.js';
import type { Znode } from './tree.js';

/** What a connection needs of its server. Implemented by `ZookeeperServer`. */
export interface Serving {
  readonly zxid: number;
  /** The server executes this request no sooner than later, and says so. */
  readonly isThrottling: boolean;
  get(path: string): Znode | undefined;
  watch(path: string, end: ServerEnd): void;
  /** @param done is called at once, later or never; with the session, or 0 for one that is over */
  begin(
    connection: ClientConnection,
    handshake: Handshake,
    done: (session: bigint, timeoutMs: number) => void,
  ): void;
  hears(session: bigint): void;
  /** Has the leader decide. @param done is called at once, later or never */
  decide(session: bigint, request: Decided, done: (outcome: Outcome) => void): void;
  forget(connection: ClientConnection, end: ServerEnd): void;
}

export type Decided = Extract<Request, { op: 'multi' | 'sync' | 'close session' }>;

/** A request whose reply was not sent yet. */
interface Entry {
  readonly request: Request;
  outcome?: Outcome;
}

/** One connection as a server sees it. It replies in the order of the requests. */
export class ClientConnection implements Listener {
  session = 0n;
  /** Its client has asked to end the session, and is to get the reply. */
  isEnding = false;
  private readonly queue: Entry[] = [];

  constructor(
    private readonly server: Serving,
    private readonly end: ServerEnd,
  ) {}

  onMessage(payload: unknown): void {
    const request = payload as WireRequest;
    if (request.op === 'handshake') return this.begin(request);
    this.server.hears(this.session);
    if (request.op === 'close session') this.isEnding = true;
    const entry: Entry = { request };
    this.queue.push(entry);
    if (this.server.isThrottling) entry.outcome = { zxid: this.server.zxid, code: CODE.throttled };
    else if (isDecided(request)) {
      this.server.decide(this.session, request, (outcome) => {
        entry.outcome = outcome;
        this.flush();
      });
    }
    this.flush();
  }

  onClose(): void {
    this.server.forget(this, this.end);
  }

  close(): void {
    this.end.destroy();
    this.server.forget(this, this.end);
  }

  private begin(handshake: Handshake): void {
    const { server, end } = this;
    // The client has seen more than this server has.
    if (handshake.lastZxid > server.zxid) return this.close();
    server.begin(this, handshake, (session, timeoutMs) => {
      this.session = session;
      end.send(handshakeReply(session, timeoutMs), `re:${kindOf(handshake)}`);
      if (timeoutMs === 0) this.close();
    });
  }

  /** A reading sees what the same client has written before, so it waits for that. */
  private flush(): void {
    for (let first = this.queue[0]; first; first = this.queue[0]) {
      const { request, outcome } = first;
      if (isDecided(request) && !outcome) return;
      this.queue.shift();
      this.end.send(
        outcome ? decidedReply(request, outcome) : this.read(request as Reading & Request),
        `re:${kindOf(request)}`,
      );
      if (request.op === 'close session') this.close();
    }
  }

  private read(request: Reading & Request): Buffer {
    const { zxid } = this.server;
    const { xid, op, path } = request;
    const node = this.server.get(path);
    if (!node) return replyTo({ xid, zxid, code: CODE.noNode });
    if (op === 'data' && request.isWatched) this.server.watch(path, this.end);
    return replyTo({ xid, zxid }, (writer) => {
      if (op === 'children') return writeChildren(writer, node);
      return writeStat(op === 'data' ? writer.text(node.data) : writer, node);
    });
  }
}

function isDecided(request: Request): request is Decided {
  return request.op === 'multi' || request.op === 'sync' || request.op === 'close session';
}

function decidedReply(request: Request, { zxid, code, results = [], failed }: Outcome): Buffer {
  const { xid } = request;
  if (code !== undefined) return replyTo({ xid, zxid, code });
  return replyTo({ xid, zxid }, (writer) => {
    if (request.op === 'sync') writer.text(request.path);
    if (request.op !== 'multi') return;
    const { operations } = request;
    if (failed) writeFailure(writer, operations.length, failed);
    else writeResults(writer, operations, results);
  });
}
