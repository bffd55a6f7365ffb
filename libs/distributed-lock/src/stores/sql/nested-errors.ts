/** Where ORMs put the error of the driver. */
const NESTED = ['cause', 'driverError', 'meta', 'driverAdapterError', 'originalError'] as const;

/** An error, and those that an ORM has wrapped in it, from the outside in. */
export function nestedErrors(error: unknown, depth = 0): readonly Readonly<Record<string, unknown>>[] {
  if (typeof error !== 'object' || error === null || depth > 5) return [];
  const fields = error as Readonly<Record<string, unknown>>;
  return [fields, ...NESTED.flatMap((name) => nestedErrors(fields[name], depth + 1))];
}
