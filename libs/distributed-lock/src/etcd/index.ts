export { etcdStore, type EtcdStoreOptions } from './store.js';
export type { EtcdAuth, EtcdTls } from './target.js';
