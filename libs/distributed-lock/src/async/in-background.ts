declare const OWNED: unique symbol;

/** A promise that never rejects: what goes wrong is told in another way. */
export type Owned<T> = Promise<T> & { readonly [OWNED]: true };

/**
 * Goes on without waiting for `work`. The only way to do so in this library: Node ends the process when a promise rejects
 * that nobody handles, so a promise that nobody waits for has somebody who is told of its failure.
 */
export function inBackground(work: Owned<unknown>): void;
export function inBackground(work: Promise<unknown>, onFailed: (error: unknown) => void): void;
export function inBackground(work: Promise<unknown>, onFailed?: (error: unknown) => void): void {
  if (onFailed) work.then(undefined, onFailed);
}
