import { leaseValidity } from '../../port/lease-validity.js';
import type { Session } from '../session/session-backend.js';

/** A lease of this client. */
export class EtcdSession implements Session {
  readonly id: string;
  validUntil: number;
  /** The client raises it after each write that was not answered, and etcd refuses writes of an earlier epoch. */
  epoch = 1;
  /** A write without an answer may still be executed, so the next transaction must raise the epoch. */
  needsFence = false;

  /** @param sentAt when the client asked for the lease, on our clock */
  constructor(
    readonly leaseId: number,
    readonly lengthMs: number,
    readonly sentAt: number,
  ) {
    this.id = leaseId.toString(16);
    this.validUntil = leaseValidity(sentAt, lengthMs);
  }

  /** A keep-alive that was sent at `sentAt` was answered. */
  onAlive(sentAt: number): void {
    if (!this.isOver) this.validUntil = Math.max(this.validUntil, leaseValidity(sentAt, this.lengthMs));
  }

  get isOver(): boolean {
    return this.validUntil === -Infinity;
  }
}

/** All epochs have one length as texts, so that etcd compares them as numbers. */
export function epochText(epoch: number): Buffer {
  return Buffer.from(epoch.toString(16).padStart(13, '0'));
}
