import { etcdStore } from 'nestjs-distributed-lock/etcd';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';
import { startEtcdCluster, startEtcdServer } from '#etcd-server';
import { describeBackEndCases } from '../../support/back-end-cases.js';
import { describeWith } from '../support/describe-with.js';
import { PATIENT } from '../../support/patient.js';
import { ownServer } from '../../support/own-server.js';

describeWith('etcd')('one etcd', () => {
  const server = ownServer(startEtcdServer);

  describeLockStoreContract('etcd', () => ({ store: etcdStore(server.url, PATIENT) }), {
    attach: 'the session of the process that detached a lock holds it',
  });
});

describeWith('etcd')('a cluster of three etcd', () => {
  const cluster = ownServer(startEtcdCluster);

  describeBackEndCases('three etcd', () => ({
    store: etcdStore(
      cluster.members.map(({ url }) => url),
      PATIENT,
    ),
  }));
});
