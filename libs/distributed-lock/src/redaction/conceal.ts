/** Hides properties from loggers, serializers and copies, which must not find the password of a client. */
export function conceal<T extends object>(owner: T, ...names: readonly string[]): void {
  for (const name of names) Object.defineProperty(owner, name, { enumerable: false });
}
