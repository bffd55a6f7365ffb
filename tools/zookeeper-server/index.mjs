export { findZookeeperServer } from './find-zookeeper-server.mjs';
export { startZookeeperCluster, startZookeeperServer } from './start-zookeeper-cluster.mjs';
