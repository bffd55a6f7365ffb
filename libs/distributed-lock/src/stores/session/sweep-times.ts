/** Each process sweeps at its own random times, in ms. */
export const SWEEP_MS = { least: 5 * 60_000, spread: 5 * 60_000 };
