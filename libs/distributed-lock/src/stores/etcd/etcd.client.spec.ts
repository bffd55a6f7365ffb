import { beforeEach, describe, expect, it } from '@jest/globals';
import { ManualClock } from '../../testing/manual-clock.js';
import { systemChance } from '../../time/chance.js';
import { EtcdClient } from './etcd.client.js';
import type { EtcdGrpc } from './etcd.grpc.js';

const TIMEOUT_MS = 500;
const ROUND_TRIP_MS = 200;
/** The first request to a member waits for its connection, too. */
const STATUS_MS = 2 * ROUND_TRIP_MS;

describe('the client of etcd', () => {
  let clock: ManualClock;
  let client: EtcdClient;
  let connections: number;
  let isSilent: boolean;

  const call = (): Promise<string> =>
    client.call('Txn', { success: [] }).then(
      () => 'answered',
      (error: Error) => error.message,
    );

  beforeEach(() => {
    [clock, connections, isSilent] = [new ManualClock(), 0, false];
    class Client {
      constructor() {
        connections += 1;
      }

      makeUnaryRequest(path: string, ...rest: readonly unknown[]): { cancel(): void } {
        const callback = rest.at(-1) as (error: Error | null, reply?: object) => void;
        const isStatus = path === 'Status';
        const reply = isStatus ? { version: '3.5.0', leader: 1 } : { succeeded: true, responses: [] };
        if (isSilent && !isStatus) return { cancel: () => callback(new Error('Cancelled')) };
        const stop = clock.after(isStatus ? STATUS_MS : ROUND_TRIP_MS, () => callback(null, reply));
        return {
          cancel: () => {
            stop();
            callback(new Error('Cancelled'));
          },
        };
      }

      close(): void {}
    }
    const methods = Object.fromEntries(['Status', 'Txn'].map((path) => [path, { path }]));
    const grpc = { Client, Metadata: Map, credentials: { createInsecure: () => ({}) } };
    client = new EtcdClient(
      { endpoints: ['etcd:2379'] },
      {
        clock,
        chance: systemChance,
        commandTimeoutMs: TIMEOUT_MS,
        loadGrpc: () => Promise.resolve({ grpc, methods } as unknown as EtcdGrpc),
      },
    );
    client.start();
  });

  it('keeps a member that was connected while a request waited, although the reply to it came too late', async () => {
    const late = call();
    await clock.advance(TIMEOUT_MS);
    expect(await late).toContain(`nothing came back within ${TIMEOUT_MS} ms`);
    const next = call();
    await clock.advance(ROUND_TRIP_MS);
    expect(await next).toBe('answered');
    expect(connections).toBe(1);
  });

  it('leaves a member that has not replied to a request in its whole time', async () => {
    await clock.advance(STATUS_MS);
    isSilent = true;
    const unanswered = call();
    await clock.advance(TIMEOUT_MS);
    expect(await unanswered).toContain(`nothing came back within ${TIMEOUT_MS} ms`);
    await clock.advance(STATUS_MS);
    expect(connections).toBe(2);
  });
});
