import { describe, expect, it } from '@jest/globals';
import { ManualClock } from '../testing/manual-clock.js';
import { CODE, ConnectionLostError, type Request, ZookeeperRefusalError } from './client/protocol.js';
import { ZookeeperSession } from './client/session.js';
import { Mailbox, READ_AGAIN_MS } from './session-life.js';
import { LockPaths, Znodes } from './znodes.js';

/** A mailbox whose readings fail with these errors, and then find a third message. */
function mailboxWith(...errors: readonly Error[]) {
  const clock = new ManualClock();
  const heard: string[] = [];
  const replies = [...errors];
  const session = {
    isConnected: true,
    readIfExists(request: Request<unknown>): Promise<unknown> {
      return ZookeeperSession.prototype.readIfExists.call(this as never, request);
    },
    send() {
      const error = replies.shift();
      if (error) return Promise.reject(error);
      return Promise.resolve({ content: { data: 'third', stat: { version: 3, mzxid: 9 } } });
    },
  };
  const mailbox = new Mailbox({
    clock,
    path: '/nest-lock/m/me',
    znodes: new Znodes({
      session: session as unknown as ZookeeperSession,
      paths: new LockPaths('/nest-lock'),
      acl: 'open',
    }),
    listener: { onMessage: (text) => heard.push(text), onGap: () => heard.push('gap') },
  });
  return { clock, heard, session, mailbox };
}

const REFUSED = new ZookeeperRefusalError(CODE.throttled);

describe('the mailbox of a client of ZooKeeper', () => {
  it('is read again until a reading is not refused, and then tells what came meanwhile', async () => {
    const { clock, heard, mailbox } = mailboxWith(REFUSED, REFUSED);
    mailbox.onConnected();
    await clock.advance(2 * READ_AGAIN_MS - 1);
    expect(heard).toEqual([]);
    await clock.advance(1);
    expect(heard).toEqual(['third', 'gap']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('is read once by each new connection, and not for the one before', async () => {
    const { clock, heard, session, mailbox } = mailboxWith(
      REFUSED,
      new ConnectionLostError(new Error('reset')),
    );
    mailbox.onConnected();
    await clock.advance(0);
    mailbox.onConnected();
    session.isConnected = false;
    await clock.advance(10 * READ_AGAIN_MS);
    expect(heard).toEqual([]);
    session.isConnected = true;
    mailbox.onConnected();
    await clock.advance(0);
    expect(heard).toEqual(['third', 'gap']);
    expect(clock.pendingTimers).toBe(0);
  });
});
