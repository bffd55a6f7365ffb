import { beforeEach, describe, expect, it } from '@jest/globals';
import { ManualClock } from '../testing/manual-clock.js';
import { WaitingRequests } from './reply-deadline.js';
import { type PipedRequest, RequestPipe } from './request-pipe.js';

const TIMEOUT_MS = 500;

describe('the requests of a connection', () => {
  let clock: ManualClock;
  let pipe: RequestPipe<PipedRequest>;
  let isOpen: boolean;
  /** The batches that were sent. */
  let sent: { readonly keys: readonly (string | undefined)[]; readonly reply: () => void }[];
  let rejected: string[];
  let silences: number;

  const add = (key: string): void =>
    pipe.add({ key, since: clock.now(), reject: (error) => void rejected.push(`${key}: ${String(error)}`) });
  const answer = (batch: number): Promise<void> => {
    sent[batch]?.reply();
    return clock.advance(0);
  };

  beforeEach(() => {
    clock = new ManualClock();
    [isOpen, sent, rejected, silences] = [true, [], [], 0];
    const waiting = new WaitingRequests<PipedRequest>();
    pipe = new RequestPipe({
      clock,
      commandTimeoutMs: TIMEOUT_MS,
      waiting,
      sendBatch: () => {
        if (!isOpen) return;
        const batch = waiting.take();
        const reply = new Promise<void>((resolve) => {
          sent.push({ keys: batch.map(({ key }) => key), reply: resolve });
        });
        pipe.send(batch, reply, { onReply: () => undefined, onFailure: () => undefined });
      },
      onSilence: (error) => {
        silences += 1;
        for (const request of pipe.takeInFlight()) request.reject(error.message);
      },
      lateError: (_, isBehind) => (isBehind ? 'late behind others' : 'late'),
      closedError: (_, reason) => `closed, ${reason}`,
    });
  });

  it('that come in one turn go together, and later ones once these are answered', async () => {
    add('a');
    add('b');
    await clock.advance(0);
    add('c');
    await clock.advance(0);
    expect(sent.map(({ keys }) => keys)).toEqual([['a', 'b']]);
    await answer(0);
    expect(sent.map(({ keys }) => keys)).toEqual([['a', 'b'], ['c']]);
  });

  it('fail when the server has been silent for the time of one, and not before', async () => {
    add('a');
    await clock.advance(300);
    add('b');
    await clock.advance(TIMEOUT_MS - 301);
    expect(rejected).toEqual([]);
    await clock.advance(1);
    expect(rejected).toEqual(['a: nothing came back within 500 ms']);
    await clock.advance(300);
    expect(rejected).toContain('b: late');
    expect(silences).toBe(1);
  });

  it('have their whole time from the last reply on', async () => {
    add('a');
    await clock.advance(400);
    add('b');
    await answer(0);
    await clock.advance(TIMEOUT_MS - 1);
    expect(rejected).toEqual([]);
    await clock.advance(1);
    expect(rejected).toEqual(['b: nothing came back within 500 ms']);
  });

  it('that wait behind a batch are told so when they are late together with it', async () => {
    add('a');
    await clock.advance(0);
    add('b');
    await clock.advance(TIMEOUT_MS);
    expect(rejected).toEqual(['a: nothing came back within 500 ms', 'b: late behind others']);
  });

  it('wait for a connection for their time, and leave no timer', async () => {
    isOpen = false;
    add('a');
    await clock.advance(TIMEOUT_MS);
    expect(rejected).toEqual(['a: late']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('that waited for a connection have their whole time once it is open', async () => {
    isOpen = false;
    add('a');
    await clock.advance(TIMEOUT_MS - 100);
    isOpen = true;
    pipe.onOpen();
    await clock.advance(TIMEOUT_MS - 1);
    expect(sent.map(({ keys }) => keys)).toEqual([['a']]);
    expect({ rejected, silences }).toEqual({ rejected: [], silences: 0 });
    await clock.advance(1);
    expect(silences).toBe(1);
  });

  it('are rejected when it closes: those in flight may have been executed', async () => {
    add('a');
    await clock.advance(0);
    add('b');
    pipe.close();
    add('c');
    expect(rejected).toEqual(['a: closed, unknown', 'b: closed, unreachable', 'c: closed, unreachable']);
    expect(clock.pendingTimers).toBe(0);
  });
});
