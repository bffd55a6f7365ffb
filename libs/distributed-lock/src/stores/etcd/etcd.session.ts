import { leaseValidity } from '../../port/lease-validity.js';
import type { Session } from '../session/session-backend.js';

/** A lease of this client. */
export class EtcdSession implements Session {
  readonly id: string;
  validUntil: number;
  /** Raised after each write that was not answered: writes of an earlier epoch are refused. */
  epoch = 1;
  /** A write may still be executed: the next one raises the epoch. */
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
