/** What an error says; of one for several addresses of a host, what each of them said. */
export function reasonOf(error: unknown): string {
  const { errors, message } = (error ?? {}) as { errors?: readonly unknown[]; message?: unknown };
  if (errors !== undefined) return [...new Set(errors.map(reasonOf))].join(', ');
  return typeof message === 'string' ? message : String(error);
}
