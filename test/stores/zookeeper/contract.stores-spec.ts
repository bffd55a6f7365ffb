import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { startZookeeperCluster, startZookeeperServer } from '#zookeeper-server';
import { describeBackEndCases } from '../../support/back-end-cases.js';
import { describeWith } from '../support/describe-with.js';
import { PATIENT } from '../../support/patient.js';
import { ownServer } from '../../support/own-server.js';

describeWith('zookeeper')('a ZooKeeper server', () => {
  const server = ownServer(startZookeeperServer);

  describeLockStoreContract('zookeeper', () => ({ store: zookeeperStore(server.url, PATIENT) }), {
    attach: 'the session of the process that detached a lock holds it',
  });
});

describeWith('zookeeper')('three ZooKeeper servers', () => {
  const cluster = ownServer(startZookeeperCluster);

  describeBackEndCases('three ZooKeeper servers', () => ({
    store: zookeeperStore(
      cluster.members.map(({ url }) => url),
      PATIENT,
    ),
  }));
});
