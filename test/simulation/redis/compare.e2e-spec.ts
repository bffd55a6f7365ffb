import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { startRedisServer, type RedisServer } from '#redis-server';
import { redisNotedBy } from '../backends/redis/redis.js';
import { runPlan } from '../history/run-plan.js';
import { drawPlan } from '../plan/draw.js';
import type { Plan } from '../plan/plan.js';
import { plainCommand } from './compare/plain-commands.js';
import { Replay, type Sent } from './compare/replay.js';
import { scriptStep, takeStep } from './compare/script-steps.js';
import { TwoServers } from './compare/two-servers.js';

const START_MS = 60_000;
const CLIENTS = 3;

let server: RedisServer;

beforeAll(async () => {
  server = await startRedisServer();
}, START_MS);
afterAll(() => server.stop());

/**
 * The same list of steps on both servers. The clock of the real one cannot be stopped: where the machine stalls for longer
 * than a lease, the list says nothing, so it is run again. A true difference is there each time.
 */
async function compare<Step>(
  steps: readonly Step[],
  take: (servers: TwoServers, step: Step, i: number) => Promise<unknown>,
  attempts = 3,
): Promise<void> {
  const servers = await TwoServers.on(server.port);
  try {
    for (const [i, step] of steps.entries()) await take(servers, step, i);
    await servers.compareAll();
  } catch (error) {
    if (attempts === 1) throw error;
    await compare(steps, take, attempts - 1);
  } finally {
    servers.close();
  }
}

/** A shorter lease would end on the real server before the next command is sent. */
function withoutShortLeases(plan: Plan): Plan {
  const calls = JSON.stringify(plan.calls);
  const longer = calls.replaceAll(/("leaseMs"|"holdAtLeastMs"|"extend","ms"):\d{1,3}\b/g, '$1:1500');
  return { ...plan, calls: JSON.parse(longer) as Plan['calls'] };
}

const limits = { interruptAfterTimeLimit: 5000, markInterruptAsFailure: false, includeErrorInReport: true };

describe('the simulated Redis beside a real server', () => {
  it('answers every command and every piece of Lua with the same bytes', async () => {
    const step = fc.record({ client: fc.nat({ max: CLIENTS - 1 }), words: plainCommand });
    const steps = fc.array(step, { minLength: 10, maxLength: 60, size: 'max' });
    const property = fc.asyncProperty(steps, (all) =>
      compare(all, (servers, { client, words }) => servers.send(client, words)),
    );
    await expect(fc.assert(property, { numRuns: 150, ...limits })).resolves.toBeUndefined();
  }, 60_000);

  it('runs the scripts of the library to the same replies, notifications and data', async () => {
    const steps = fc.array(scriptStep(CLIENTS), { minLength: 10, maxLength: 60, size: 'max' });
    const property = fc.asyncProperty(steps, (all) => compare(all, takeStep));
    await expect(fc.assert(property, { numRuns: 150, ...limits })).resolves.toBeUndefined();
  }, 60_000);

  it('answers what the processes of simulated histories send with the same bytes', async () => {
    const unlike = ['crash server', 'forget', 'refuse', 'server event'];
    const plans = Array.from({ length: 30 }, (_, i) => drawPlan(redisNotedBy(), `${i}`))
      .filter(({ faults }) => !faults.some(({ act }) => unlike.includes(act.do)))
      .filter(({ storeOptions }) => !storeOptions['minReplicaAcks'])
      .slice(0, 3)
      .map(withoutShortLeases);
    for (const plan of plans) {
      const sent: Sent[] = [];
      await runPlan(
        plan,
        redisNotedBy((client, words, micros) => sent.push({ client, words, micros })),
      );
      let replay: Replay;
      const compared = compare(sent.slice(0, 300), (servers, each, i) => {
        if (i === 0) replay = new Replay(servers);
        return replay.send(each);
      });
      await expect(compared).resolves.toBeUndefined();
    }
  }, 60_000);
});
