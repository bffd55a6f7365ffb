import { describe, expect, it } from '@jest/globals';
import type { LockEvent } from '../../../../libs/distributed-lock/src/lock/events/lock.events.js';
import { LockService } from '../../../../libs/distributed-lock/src/lock/lock.service.js';
import { eventsOf } from '../../../support/events.js';
import { Dice } from '../../kernel/dice.js';
import { Kernel } from '../../kernel/kernel.js';
import { Machine } from '../../kernel/machine.js';
import { SimProcess } from '../../kernel/process.js';
import { sourcesOf } from '../../kernel/sources.js';
import { Network } from '../../network/network.js';
import { zookeeper } from './zookeeper.js';

const WATCHDOG_MS = 3000;
const ROUND_TRIP_MS = WATCHDOG_MS / 4;
/** The session is twelve round trips long, so this is several sessions. */
const HELD_MS = 50 * ROUND_TRIP_MS;
const PATIENCE_MS = 60_000;

describe('a service whose round trip to ZooKeeper takes a quarter of the watchdog timeout', () => {
  it('keeps its lock by a longer session, and warns of that', async () => {
    const kernel = new Kernel(new Dice('network'));
    const network = new Network(kernel, { least: ROUND_TRIP_MS / 2, spread: 0 });
    const servers = zookeeper.open(
      { kernel, network, dice: new Dice('servers'), disturb: () => undefined },
      {
        commandTimeoutMs: WATCHDOG_MS / 3,
        leastSessionMs: 1000,
        mostSessionMs: 40_000,
        members: 3,
        memberLatencyMs: 0,
        syncLimitMs: 3000,
      },
    );
    const process = new SimProcess('far', kernel, new Machine(1, 0));
    const heard: unknown[] = [];
    process.onThrown = (error) => heard.push(error);
    let service: LockService | undefined;
    let events: readonly LockEvent[] = [];
    const hold = async (open: LockService): Promise<void> => {
      const lock = await open.acquire('k', { waitMs: PATIENCE_MS });
      heard.push('acquired');
      lock.signal.addEventListener('abort', () => heard.push('lost'));
      await new Promise<void>((resolve) => process.setTimeout(HELD_MS, resolve));
      heard.push(await lock.release());
    };
    process.receive(() => {
      service = new LockService({
        ...sourcesOf(process, new Dice('chance')),
        store: servers.storeFor(process),
        watchdogTimeoutMs: WATCHDOG_MS,
        shutdownGraceMs: 0,
        application: false,
      });
      events = eventsOf(service);
      service.open();
      hold(service).catch((error: unknown) => heard.push(error));
    });
    await kernel.run(PATIENCE_MS + HELD_MS);
    expect(heard).toEqual(['acquired', 'released']);
    const warnings = events.flatMap((event) => (event.type === 'warning' ? event.message : []));
    expect(warnings).toEqual([
      expect.stringMatching(
        /takes 750 ms, .+ the session is 9000 ms long, and not watchdogTimeoutMs \(3000\)/,
      ),
    ]);
    process.receive(() => void service?.close());
    await kernel.run(kernel.now + PATIENCE_MS);
    expect([process.pendingTimers, network.openConnections]).toEqual([0, 0]);
  });
});
