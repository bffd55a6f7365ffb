/** The fields of a kind by which the checker judges its faults. @param {import('../index.d.mts').Kind} kind */
export function excusesOf({ name, recoverMs, goalMs, losesData, stopsStore, sparesMajority }) {
  return { kind: name, recoverMs, goalMs, losesData, stopsStore, sparesMajority };
}
