import type { GrpcCall } from '../nest/grpc-call.js';
import type { Answer } from './answer.js';
import { onEndOf } from './shared-listener.js';

/** `@grpc/grpc-js` emits 'cancelled' at every end of a call, also when it has sent the status itself. */
export class GrpcAnswer implements Answer {
  /** The call has no member that tells. */
  readonly isBegun = false;

  constructor(private readonly call: GrpcCall) {}

  get wasLeft(): boolean {
    return this.call.cancelled;
  }

  whenOver(listener: () => void): () => void {
    if (!this.call.cancelled && !this.call.destroyed)
      return onEndOf(this.call, ['cancelled', 'close'], listener);
    listener();
    return () => undefined;
  }

  breakOff(error: unknown): void {
    // The payload of an `RpcException`, whose code is the status.
    this.call.emit('error', (error as { getError?(): unknown }).getError?.() ?? error);
  }
}
