/**
 * Resolves when `condition` holds, asked every 20 ms; a condition that throws or rejects does not hold yet.
 *
 * @throws Error after `withinMs`, 20 s by default
 */
export function until(condition: () => boolean | Promise<boolean>, withinMs?: number): Promise<void>;
