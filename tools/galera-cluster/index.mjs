export { findGalera } from './find-galera.mjs';
export { startGaleraCluster } from './start-galera-cluster.mjs';
