import advisoryLock from 'advisory-lock';

/** @type {import('../contestants/contestant.d.mts').OpenContestant} */
export async function open(url) {
  const createMutex = advisoryLock.default(url);
  return { run: (key, work) => createMutex(key).withLock(async () => work()) };
}
