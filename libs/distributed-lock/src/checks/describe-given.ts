/** Describes what stands where a number should. A number is no secret; a text may be one. */
export function describeNumber(value: unknown): string {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' ? 'a string, which Number(…) converts' : describeGiven(value);
}

/** Describes a value for messages without repeating it, because it may be secret. */
export function describeGiven(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (value === '') return 'an empty string';
  if (Array.isArray(value)) return 'a list';
  if (typeof value !== 'object') return `a ${typeof value}`;
  const { name = '' } = (Object.getPrototypeOf(value) as object | null)?.constructor ?? {};
  return name === '' || name === 'Object' ? 'an object' : `an object of class ${name}`;
}
