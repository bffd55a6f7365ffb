import { afterAll, beforeAll } from '@jest/globals';
import { quorumStore } from 'nestjs-distributed-lock/quorum';
import { redisStore } from 'nestjs-distributed-lock/redis';
import {
  describeLockStoreContract,
  ManualClock,
  type ContractDeviations,
} from 'nestjs-distributed-lock/testing';
import { startRedisServer, type RedisServer } from '#redis-server';
import { describeBackEndCases } from '../support/back-end-cases.js';
import type { ContractGroup } from '../../libs/distributed-lock/src/testing/contract/stage.js';
import { permitCases } from '../../libs/distributed-lock/src/testing/contract/permits.js';
import { memoryStore } from '../../libs/distributed-lock/src/memory/store.js';

const deviations: ContractDeviations = {
  'a holder can reserve more tokens under the same grant, and they are nobody else’s':
    'a quorum asks this of its nodes, and is no node of another one',
  'a snapshot tells the holder, its lease and token, and who waits, in order':
    'the nodes reserve tokens beyond the one that was given: only its holder knows it',
  attach: 'a majority of nodes would have to attach together, and to undo it where they fail',
  ...all(permitCases, 'a majority of nodes would let in more than there are permits'),
};

function all(group: ContractGroup, reason: string): ContractDeviations {
  return Object.fromEntries(Object.keys(group).map((claim) => [claim, reason]));
}

describeLockStoreContract(
  'a quorum of three in memory',
  () => {
    const clock = new ManualClock();
    const store = quorumStore([memoryStore(), memoryStore(), memoryStore()]);
    return { store, clock, pass: (ms) => clock.advance(ms) };
  },
  deviations,
);

let servers: RedisServer[] = [];

beforeAll(async () => {
  servers = await Promise.all([1, 2, 3].map(() => startRedisServer()));
}, 60_000);
afterAll(() => Promise.all(servers.map((server) => server.stop())));

describeBackEndCases(
  'a quorum of three Redis servers',
  () => ({ store: quorumStore(servers.map(({ url }) => redisStore(url, { commandTimeoutMs: 2000 }))) }),
  deviations,
);
