export type { QuorumNodeState, QuorumStoreOptions } from './quorum.options.js';
export { quorumStore } from './quorum.store.js';
