/** Requests that wait for a connection, or for the reply to earlier ones, in the order in which they go. */
export class WaitingRequests<Request> {
  protected requests: Request[] = [];

  get size(): number {
    return this.requests.length;
  }

  push(request: Request): void {
    this.requests.push(request);
  }

  /** Puts requests at the head of the queue, to be sent before all others. */
  putBack(requests: readonly Request[]): void {
    this.requests = [...requests, ...this.requests];
  }

  /** Removes and returns the requests that are wanted. */
  take(isWanted: (request: Request) => boolean = () => true): readonly Request[] {
    const taken: Request[] = [];
    const left: Request[] = [];
    for (const request of this.requests) (isWanted(request) ? taken : left).push(request);
    if (taken.length > 0) this.requests = left;
    return taken;
  }

  [Symbol.iterator](): IterableIterator<Request> {
    return this.requests.values();
  }
}
