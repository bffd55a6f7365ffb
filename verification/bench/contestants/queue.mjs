// The least that a lock within one process costs: a queue of promises. It excludes no other process.

/** @type {import('./contestant.d.mts').OpenContestant} */
export async function open() {
  /** @type {Map<string, (() => void)[]>} those who wait, by key */
  const queues = new Map();
  return {
    async run(key, work) {
      const queue = queues.get(key);
      if (queue) await new Promise((resolve) => queue.push(resolve));
      else queues.set(key, []);
      try {
        return await work();
      } finally {
        const next = queues.get(key).shift();
        if (next) next();
        else queues.delete(key);
      }
    },
  };
}
