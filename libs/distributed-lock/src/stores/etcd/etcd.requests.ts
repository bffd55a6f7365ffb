import { MAILBOX_SLOTS } from './etcd.keys.js';
import type { RequestOp, TxnReply } from './etcd.messages.js';
import { MOST_OPERATIONS } from './etcd.parts.js';
import type { EtcdSession } from './etcd.session.js';

/** A request that waits for its transaction. */
export interface EtcdRequest<Reply = unknown> {
  /** What it reads and writes. No two requests of one transaction have a name in common. */
  readonly names: readonly string[];
  /** The key for errors. */
  readonly key: string | undefined;
  /** Absent for a request that writes nothing. */
  readonly session?: EtcdSession | undefined;
  /** Who gets a message. */
  readonly clients: readonly string[];
  /** Makes its transaction, which goes inside that of the batch. @param slotOf the free slot of a mailbox */
  readonly toTxn: (slotOf: (client: string) => number) => NonNullable<RequestOp['requestTxn']>;
  /** How many operations its transaction has on its longest way down. */
  readonly depth: number;
  readonly bytes: number;
  /** A batch with it was too large. */
  readonly isAlone?: boolean;
  /** @param revision that of the batch */
  readonly toReply: (reply: TxnReply, revision: number) => Reply;
  /** Our time when it came, in ms. */
  readonly since: number;
  resolve(reply: Reply): void;
  reject(error: unknown): void;
}

/** Far below etcd's limit of 1.5 MB for a request. */
const MOST_BYTES = 512 * 1024;

/** Requests of one transaction, and the slots that their messages go to. */
export class Batch {
  readonly requests: EtcdRequest[] = [];
  private readonly names = new Set<string>();
  private readonly slots = new Map<string, number>();
  private depth = 0;
  private bytes = 0;

  /** @returns whether it has got in */
  add(request: EtcdRequest): boolean {
    if (this.requests.length > 0 && !this.hasRoomFor(request)) return false;
    this.requests.push(request);
    for (const name of request.names) this.names.add(name);
    for (const client of request.clients) this.slots.set(client, this.slotsOf(client) + 1);
    this.depth = Math.max(this.depth, request.depth);
    this.bytes += request.bytes;
    return true;
  }

  /** For a request that cannot go now, so that later ones on the same name do not overtake it. */
  block(request: EtcdRequest): void {
    for (const name of request.names) this.names.add(name);
  }

  private hasRoomFor({ names, clients, depth, bytes, isAlone }: EtcdRequest): boolean {
    return (
      !isAlone &&
      !this.requests[0]?.isAlone &&
      this.requests.length + 1 + Math.max(this.depth, depth) <= MOST_OPERATIONS &&
      this.bytes + bytes <= MOST_BYTES &&
      clients.every((client) => this.slotsOf(client) < MAILBOX_SLOTS) &&
      !names.some((name) => this.names.has(name))
    );
  }

  private slotsOf(client: string): number {
    return this.slots.get(client) ?? 0;
  }
}
