export function nextAction(situation: Situation): Action {
  const { acquiring, document, isFresh, mustLeaveNotes } = situation;
  const mayBeAbsent = document === 'absent' || (acquiring === 'all' && !isFresh);
  if (acquiring !== 'none' && (mayBeAbsent || mustLeaveNotes)) return 'take';
  if (document === 'not known') return 'read';
  if (situation.isChanged()) return 'swap';
  return isFresh ? 'answer' : 'read';
}

/** The knowledge of a lane before it asks the store, or answers. */
export interface Situation {
  /** How many of the tasks acquire: these may take a document that the lane has never seen. */
  readonly acquiring: 'none' | 'some' | 'all';
  /** The lane knows nothing of the document yet, or that there was none, or its newest state. */
  readonly document: 'not known' | 'absent' | 'present';
  /** The document was read or written for these tasks. Another client may have changed an older one. */
  readonly isFresh: boolean;
  /** Swaps failed because other clients wrote first, and the waiters have left no notes yet. A take that fails leaves them. */
  readonly mustLeaveNotes: boolean;
  /** Whether the tasks change the document. Called only if the action depends on it, because it applies the tasks. */
  isChanged(): boolean;
}

/**
 * - `take` writes the first grant of a free key without reading it. If the key is not free, the document comes back, and the
 *   owners that wait have left notes.
 * - `read` asks for the document.
 * - `swap` writes the changed document, if it is still the known one.
 * - `answer` needs no request: nothing changes, and the document is fresh.
 */
export type Action = 'take' | 'read' | 'swap' | 'answer';
