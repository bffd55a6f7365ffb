export type { StoreCapability } from '../port/capabilities.js';
export type { StoreUnderTest } from './contract/stage.js';
export { FaultyStore, type Fate, type Faults, type StoreCommand } from './faulty-store.js';
export {
  describeLockStoreContract,
  type ContractCaseName,
  type ContractDeviations,
} from './lock-store.contract.js';
export { ManualClock } from './manual-clock.js';
export { TestLocks, type TestLocksOptions } from './test-locks.js';
