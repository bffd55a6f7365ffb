import type { Calls, WatchReply, WatchRequest } from '../../../../libs/distributed-lock/src/etcd/grpc.js';

/** A request as gRPC carries it: one of many on a connection, each with a number. */
export type WireRequest =
  | { readonly [Name in keyof Calls]: WireCall<Name> }[keyof Calls]
  | { readonly id: number; readonly name: 'Watch'; readonly request: WatchRequest }
  | { readonly id: number; readonly name: 'cancel' };

interface WireCall<Name extends keyof Calls> {
  readonly id: number;
  readonly name: Name;
  readonly request: Calls[Name]['request'];
}

export type WireReply =
  | { readonly id: number; readonly reply: object }
  | { readonly id: number; readonly watched: WatchReply }
  | { readonly id: number; readonly error: WireError };

export interface WireError {
  readonly code: number;
  readonly details: string;
}

/** An answer of etcd that is an error of gRPC. */
export class Refusal extends Error {
  constructor(
    readonly code: number,
    readonly details: string,
  ) {
    super(details);
  }
}
