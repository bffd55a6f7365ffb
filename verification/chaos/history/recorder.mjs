import { openSync, writeSync } from 'node:fs';
import { now } from '../now.mjs';

/**
 * Writes one record per line, at once: what a process did before it was killed is on record.
 *
 * @param {string} file @param {string} who the process that records
 * @returns {(type: string, details?: object) => void}
 */
export function recordTo(file, who) {
  const descriptor = openSync(file, 'a');
  return (type, details = {}) =>
    void writeSync(descriptor, `${JSON.stringify({ at: now(), who, type, ...details })}\n`);
}
