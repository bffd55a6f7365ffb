/** For many clients that ask at once: a busy machine may take longer than usual for a command. */
export const PATIENT = { commandTimeoutMs: 2000 };
