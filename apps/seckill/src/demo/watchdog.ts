/** A killed process blocks the item for so long; the default of 30 s would only make the demo longer. */
export const WATCHDOG_MS = 3000;
