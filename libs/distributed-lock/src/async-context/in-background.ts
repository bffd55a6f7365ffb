declare const OWNED: unique symbol;

/**
 * Goes on without waiting for `work`. This is the only way to do so in this library, because Node ends the process when a
 * promise without a handler rejects.
 */
export function inBackground(work: NeverRejects<unknown>): void;
export function inBackground(work: Promise<unknown>, onFailed: (error: unknown) => void): void;
export function inBackground(work: Promise<unknown>, onFailed?: (error: unknown) => void): void {
  if (onFailed) work.then(undefined, onFailed);
}

/** A promise that never rejects. Failures are values or events. */
export type NeverRejects<T> = Promise<T> & { readonly [OWNED]: true };
