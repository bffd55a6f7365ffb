import { readFileSync } from 'node:fs';

const LIBRARY = new URL('../../libs/distributed-lock/src/', import.meta.url);

/** The figures that pictures repeat, from the sources, where they are written as `waitMs = 10_000`. */
export function figuresInCode() {
  return {
    waitMs: read('waitMs', 'lock/request/lock-options.ts'),
    watchdogTimeoutMs: read('watchdogTimeoutMs', 'lock/request/lock-options.ts'),
    shutdownGraceMs: read('shutdownGraceMs', 'lock/request/lock-options.ts'),
    commandTimeoutMs: read('commandTimeoutMs', 'redis/options.ts'),
    recheckMs: read('RECHECK_MS', 'port/timing.ts'),
    renewalsPerLease: read('RENEWALS_PER_LEASE', 'lock/core/lease.ts'),
  };
}

/** @param {string} name @param {string} file @returns {number} */
function read(name, file) {
  const [, digits] =
    new RegExp(`\\b${name}(?: =|:) ([\\d_]+)`).exec(readFileSync(new URL(file, LIBRARY), 'utf8')) ?? [];
  if (digits === undefined) throw new Error(`No figure ${name} was found in ${file}.`);
  return Number(digits.replaceAll('_', ''));
}
