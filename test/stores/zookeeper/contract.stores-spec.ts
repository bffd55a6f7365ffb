import { afterAll, beforeAll } from '@jest/globals';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { startZookeeperCluster, startZookeeperServer, type ZookeeperServer } from '#zookeeper-server';
import type { OwnCluster } from '../../../tools/own-cluster/index.mjs';
import { describeBackEndCases } from '../../support/back-end-cases.js';
import { describeWith } from '../support/describe-with.js';
import { PATIENT } from '../support/patient.js';

describeWith('zookeeper')('a ZooKeeper server', () => {
  let server: ZookeeperServer;
  beforeAll(async () => {
    server = await startZookeeperServer();
  });
  afterAll(() => server.stop());

  describeLockStoreContract('zookeeper', () => ({ store: zookeeperStore(server.url, PATIENT) }));
});

describeWith('zookeeper')('three ZooKeeper servers', () => {
  let cluster: OwnCluster;
  beforeAll(async () => {
    cluster = await startZookeeperCluster();
  });
  afterAll(() => cluster.stop());

  describeBackEndCases('three ZooKeeper servers', () => ({
    store: zookeeperStore(
      cluster.members.map(({ url }) => url),
      PATIENT,
    ),
  }));
});
