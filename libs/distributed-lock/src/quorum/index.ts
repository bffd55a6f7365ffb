export type { QuorumNodeState, QuorumStoreOptions } from './store.js';
export { quorumStore } from './store.js';
