export { ClockShift, missingShift } from './faults/clock-shift.mjs';
export { kindsOf } from './faults/index.mjs';
export { growth } from './growth.mjs';
export { checkHistory } from './history/check-history.mjs';
export { readHistory } from './history/read-history.mjs';
export { MUTANTS, mutate } from './mutants/index.mjs';
export { STORES } from './stores.mjs';
export { runTrial } from './trial.mjs';
