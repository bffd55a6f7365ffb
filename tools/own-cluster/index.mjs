export { startOwnCluster } from './start-own-cluster.mjs';
