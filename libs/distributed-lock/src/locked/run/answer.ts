/** The open answer to a request: a response of HTTP, or a call of gRPC. */
export interface Answer {
  /** True once something of it was sent, or its handler has announced that it sends it. */
  readonly isBegun: boolean;
  /** True if the client has gone before the answer was complete. Says nothing before the answer is over. */
  readonly wasLeft: boolean;
  /**
   * Calls `listener` once: when the answer was sent or the client has gone, at once if that is so already.
   *
   * @returns stops listening
   */
  whenOver(listener: () => void): () => void;
  /** Ends the answer so that the client sees that it is not complete. */
  breakOff(error: unknown): void;
}
