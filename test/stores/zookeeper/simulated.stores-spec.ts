import { expect, it } from '@jest/globals';
import fc from 'fast-check';
import { startZookeeperServer } from '#zookeeper-server';
import { Operation, Request } from '../../../libs/distributed-lock/src/zookeeper/client/protocol.js';
import { describeWith } from '../support/describe-with.js';
import { TwoZookeepers } from './support/two-zookeepers.js';
import { ownServer } from '../../support/own-server.js';

const CLIENTS = 2;
const REQUESTS_PER_SESSION = 60;
const TEST_MS = 60_000;
const acl = 'open';

const path = fc.constantFrom('/a', '/a/b', '/a/c', '/a/b/d', '/e');
const data = fc.constantFrom('', 'text', 'é');
const version = fc.constantFrom(-1, -1, -1, 0, 1, 2);
const isEphemeral = fc.boolean();

const operation: fc.Arbitrary<Operation> = fc.oneof(
  fc
    .tuple(path, data, isEphemeral)
    .map(([at, text, own]) => Operation.create(at, { acl, data: text, isEphemeral: own })),
  fc
    .tuple(path, isEphemeral)
    .map(([at, own]) => Operation.create(`${at}/n!`, { acl, isEphemeral: own, isSequential: true })),
  fc.tuple(path, data, version).map(([at, text, v]) => Operation.setData(at, text, v)),
  fc.tuple(path, version).map(([at, v]) => Operation.remove(at, v)),
  fc.tuple(path, version).map(([at, v]) => Operation.check(at, v)),
);
const request: fc.Arbitrary<Request<unknown>> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.array(operation, { minLength: 1, maxLength: 3 }).map((all) => Request.multi(all)),
  },
  fc.tuple(path, fc.boolean()).map(([at, isWatched]) => Request.getData(at, isWatched)),
  path.map((at) => Request.exists(at)),
  path.map((at) => Request.getChildren(at)),
  path.map((at) => Request.sync(at)),
);
const step = fc.record({ client: fc.nat({ max: CLIENTS - 1 }), request });

describeWith('zookeeper')('the simulated ZooKeeper beside a real server', () => {
  const server = ownServer(startZookeeperServer);

  it(
    'answers every request with the same results, codes, transactions and events',
    async () => {
      const steps = fc.array(step, { minLength: 200, maxLength: 200 });
      const [all] = fc.sample(steps, { numRuns: 1, seed: 1 }) as [
        { client: number; request: Request<unknown> }[],
      ];
      const two = new TwoZookeepers(server.port);
      const clients = [await two.open(), await two.open()];
      for (const [i, { client, request: next }] of all.entries()) {
        // The ephemeral znodes of a session go with it, and other clients are told by their watches.
        const isLast = i % REQUESTS_PER_SESSION === REQUESTS_PER_SESSION - 1;
        const { real, simulated } = await two.send(
          clients[client] as number,
          isLast ? Request.closeSession : next,
        );
        expect({ i, said: simulated }).toEqual({ i, said: real });
        if (isLast) clients[client] = await two.open();
      }
      two.close();
    },
    TEST_MS,
  );
});
