/** For claims that are not about this limit: a busy machine may take longer than usual for a command. */
export const PATIENT = { commandTimeoutMs: 5000 };
