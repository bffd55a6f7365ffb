import { afterAll, beforeAll } from '@jest/globals';
import { etcdStore } from 'nestjs-distributed-lock/etcd';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';
import { startEtcdCluster, startEtcdServer, type EtcdServer } from '#etcd-server';
import { describeBackEndCases } from '../../support/back-end-cases.js';
import { describeWith } from '../support/describe-with.js';
import { PATIENT } from '../support/patient.js';

type Cluster = Awaited<ReturnType<typeof startEtcdCluster>>;

describeWith('etcd')('one etcd', () => {
  let server: EtcdServer;
  beforeAll(async () => {
    server = await startEtcdServer();
  });
  afterAll(() => server.stop());

  describeLockStoreContract('etcd', () => ({ store: etcdStore(server.url, PATIENT) }));
});

describeWith('etcd')('a cluster of three etcd', () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startEtcdCluster();
  });
  afterAll(() => cluster.stop());

  describeBackEndCases('three etcd', () => ({
    store: etcdStore(
      cluster.members.map(({ url }) => url),
      PATIENT,
    ),
  }));
});
