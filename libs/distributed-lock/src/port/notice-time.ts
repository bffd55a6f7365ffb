/** Where no notification comes from the back end, a store reads the state of what its client holds this often. */
export const HELD_POLL_MS = 250;

/**
 * The longest time from when the back end has a notice for a holder until the holder's process has it, if that process reaches
 * the back end: a reading that was executed just before may be under way, then the store pauses, then it reads again.
 *
 * @param commandTimeoutMs of the holder's store: a reading that takes longer has failed. One longer request, or a message that is
 * lost or that the back end brings later, is a fault.
 */
export function maxNoticeMs(commandTimeoutMs: number): number {
  return HELD_POLL_MS + 2 * commandTimeoutMs;
}
