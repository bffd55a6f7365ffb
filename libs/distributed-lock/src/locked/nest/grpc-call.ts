/** A call of `@grpc/grpc-js` on its server, as Nest gives it to handlers. */
export interface GrpcCall {
  readonly cancelled: boolean;
  readonly destroyed?: boolean;
  readonly metadata: object;
  getPeer(): string;
  on(event: string, listener: () => void): unknown;
  removeListener(event: string, listener: () => void): unknown;
  emit(event: 'error', error: unknown): unknown;
}

/** The call among the arguments of a message; `undefined` for a message of another transport. */
export function grpcCallOf(args: readonly unknown[]): GrpcCall | undefined {
  return args.find(isGrpcCall);
}

function isGrpcCall(arg: unknown): arg is GrpcCall {
  const { cancelled, getPeer, on } = Object(arg) as Partial<GrpcCall>;
  return typeof cancelled === 'boolean' && typeof getPeer === 'function' && typeof on === 'function';
}

/** Ends a call with an error. The payload of an `RpcException` has the status. */
export function breakOffCall(call: GrpcCall, error: unknown): void {
  call.emit('error', (error as { getError?(): unknown }).getError?.() ?? error);
}
