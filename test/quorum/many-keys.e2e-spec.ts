import { describe, expect, it } from '@jest/globals';
import { LOCK } from '../../libs/distributed-lock/src/port/claim.js';
import { QuorumWorld } from './quorum-world.js';
import { follow } from '../support/lock-world.js';

describe('many keys of one process at once', () => {
  it('grants all of them, however far the counters of the nodes are apart by then', async () => {
    const world = new QuorumWorld();
    let seed = 1;
    const random = () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647;
    for (const faults of world.faults)
      faults.command = () => ({
        executedAfterMs: [Math.ceil(random() * 5)],
        repliedAfterMs: Math.ceil(random() * 5),
      });
    const client = world.client();
    const asked = follow(
      Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          client.acquire({
            key: `key:${i}`,
            owner: `${client.clientId}:${i}`,
            claim: LOCK,
            leaseMs: 10_000,
            waitMs: 0,
            ticket: 0,
            tokens: 1,
          }),
        ),
      ),
    );
    for (let i = 0; i < 50 && asked.state === 'pending'; i++) await world.clock.advance(1);
    const replies = await asked.promise;
    expect(replies.map(({ kind }) => kind)).toEqual(replies.map(() => 'granted'));
    await world.close();
  });
});
