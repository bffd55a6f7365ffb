export { findEtcdServer } from './find-etcd-server.mjs';
export { startEtcdCluster, startEtcdServer } from './start-etcd-cluster.mjs';
