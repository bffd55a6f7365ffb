import { redisStore } from 'nestjs-distributed-lock/redis';
import { startRedisCluster } from '#redis-topologies';
import { describeBackEndCases } from '../../../support/back-end-cases.js';
import { ownServer } from '../../../support/own-server.js';
import { PATIENT } from '../../../support/patient.js';
import { clusterTargetOf, type Library } from '../../../support/redis-library.js';

const DEVIATIONS = {
  'a waiter whose client is gone is passed over':
    'a node of a cluster does not count the subscribers of the other nodes: the grant to a client that is gone ends with its initial lease',
  'a key may consist of any characters':
    'a key with a brace and no hash tag is refused, because its keys would lie in different slots',
};

const cluster = ownServer(() => startRedisCluster(3));
const by = (library: Library) => () => ({
  store: redisStore(clusterTargetOf(library, cluster), PATIENT),
});

describeBackEndCases('a cluster of redis by node-redis', by('node-redis'), DEVIATIONS);
describeBackEndCases('a cluster of redis by ioredis', by('ioredis'), DEVIATIONS);
