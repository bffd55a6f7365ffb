/**
 * Takes properties out of what loggers, serializers and copies go through: an object that is logged must not lead them to
 * the password of a client.
 */
export function conceal<T extends object>(owner: T, ...names: readonly string[]): void {
  for (const name of names) Object.defineProperty(owner, name, { enumerable: false });
}
