export { zookeeperStore, type ZookeeperStoreOptions } from './zookeeper.store.js';
export type { ZookeeperTarget } from './zookeeper.target.js';
