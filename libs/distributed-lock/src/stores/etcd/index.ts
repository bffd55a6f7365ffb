export { etcdStore, type EtcdStoreOptions } from './etcd.store.js';
export type { EtcdAuth, EtcdTls } from './etcd.target.js';
