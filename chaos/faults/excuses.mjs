/** What the checker is told of a fault of this kind. @param {import('../index.d.mts').Kind} kind */
export function excusesOf({ name, recoverMs, goalMs, losesData, stopsStore, sparesMajority }) {
  return { kind: name, recoverMs, goalMs, losesData, stopsStore, sparesMajority };
}
