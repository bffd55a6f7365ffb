export { type EtcdAuth, etcdStore, type EtcdStoreOptions, type EtcdTls } from './store.js';
