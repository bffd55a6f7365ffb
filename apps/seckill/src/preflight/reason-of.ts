/** The message of an error. An error for several addresses of a host has the message of each. */
export function reasonOf(error: unknown): string {
  const { errors, message } = (error ?? {}) as { errors?: readonly unknown[]; message?: unknown };
  if (errors !== undefined) return [...new Set(errors.map(reasonOf))].join(', ');
  return typeof message === 'string' ? message : String(error);
}
