/** Where a kind has a limit, processes that ask alike are served alike. */
export function fairness({ calls, apps, settings }) {
  const { jain } = settings.limits ?? {};
  if (jain === undefined) return [];
  const counts = [...apps.keys()].map(
    (name) => calls.filter(({ app, enteredAt }) => app === name && enteredAt !== undefined).length,
  );
  const index = jainOf(counts);
  return index < jain
    ? [
        `the processes were let in ${counts.join(', ')} times: Jain's index is ${index.toFixed(3)}, ${jain} is the limit`,
      ]
    : [];
}

/** 1 when all are alike, and one by their number when one has everything. @param {readonly number[]} counts */
function jainOf(counts) {
  const sum = counts.reduce((total, count) => total + count, 0);
  const squares = counts.reduce((total, count) => total + count * count, 0);
  return sum ** 2 / (counts.length * squares);
}
