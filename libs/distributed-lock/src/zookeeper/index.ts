export { zookeeperStore, type ZookeeperStoreOptions } from './store.js';
export type { ZookeeperTarget } from './store.js';
