import { until } from '#until';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { type Clock, systemChance, systemClock } from '../../../libs/distributed-lock/src/common/clock.js';
import type { BackendListener, Session } from '../../../libs/distributed-lock/src/session/backend.js';
import { SessionSweeper } from '../../../libs/distributed-lock/src/session/register.js';
import { ZookeeperBackend } from '../../../libs/distributed-lock/src/zookeeper/backend.js';
import { Operation, Request } from '../../../libs/distributed-lock/src/zookeeper/client/protocol.js';
import { LockPaths } from '../../../libs/distributed-lock/src/zookeeper/znodes.js';
import { describeWith } from '../support/describe-with.js';
import { ownZookeeper } from './support/own-zookeeper.js';
import { ZookeeperHand } from './support/zookeeper-hand.js';

const FREE = '[1,0,[],[]]';
const HELD = '[1,0,[["a:1","l",1,1,"+30000",null,0,"s"]],[]]';

describeWith('zookeeper')('the documents of one client of ZooKeeper', () => {
  const zookeeper = ownZookeeper();
  let messages: string[];
  let gaps: number;
  let backend: ZookeeperBackend;
  let session: Session;
  const open = (clientId: string, listener: Partial<BackendListener> = {}) => {
    const server = { host: '127.0.0.1', port: zookeeper.server.port };
    const options = {
      clock: systemClock,
      chance: systemChance,
      clientId,
      paths: new LockPaths('/nest-lock'),
      servers: [server],
      tls: undefined,
      auth: undefined,
      sessionMs: 5000,
      commandTimeoutMs: 1000,
    };
    const opened = new ZookeeperBackend(options, {}, zookeeper.server.url);
    opened.listen({
      onMessage: (text) => messages.push(text),
      onGap: () => void gaps++,
      onSessionEnd: () => undefined,
      ...listener,
    });
    return opened;
  };
  const take = (text: string, notes: readonly string[] = [], version?: number) => {
    const seen = version === undefined ? undefined : { version, isFree: true, notesRead: 1, nextTicket: 1 };
    return backend.take({ name: zookeeper.key, seen, text, notes, session });
  };
  const swap = (
    version: number | undefined,
    text: string,
    more: {
      failOnUnreadNotes?: boolean;
      notesRead?: number;
      mergedNotes?: string[];
      clients?: string[];
    } = {},
  ) => {
    const { failOnUnreadNotes = false, notesRead = 1, mergedNotes = [], clients = [] } = more;
    return backend.swap({
      name: zookeeper.key,
      version,
      text,
      mayDelete: false,
      session,
      failOnUnreadNotes,
      notesRead,
      nextTicket: 1,
      mergedNotes,
      messages: { name: zookeeper.key, clients, text: (of) => `${zookeeper.key} ${of}` },
    });
  };
  beforeEach(async () => {
    messages = [];
    gaps = 0;
    backend = open('me');
    session = await backend.session(zookeeper.key);
  });
  afterEach(() => backend.close(false));

  it('are made by a take, and emptied ones are taken by their version', async () => {
    const made = await take(HELD);
    expect(made).toMatchObject({ isDone: true, row: { version: 1, text: HELD, notes: [], notesRead: 1 } });
    expect(made.row.writtenAt).toBe(made.row.revision);
    const freed = await swap(1, FREE, { failOnUnreadNotes: true });
    expect(freed).toMatchObject({ isDone: true, row: { version: 2, text: FREE } });
    expect(await take(HELD)).toMatchObject({ isDone: false, row: { version: 2 } });
    expect(await take(HELD, [], 2)).toMatchObject({ isDone: true, row: { version: 3, notesRead: 1 } });
    expect(await backend.read(zookeeper.key)).toMatchObject({
      version: 3,
      text: HELD,
      notes: [],
      notesRead: 1,
    });
  });

  it('stand beside what the client tells of itself, which the end of an earlier session of it does not take away', async () => {
    const clientId = `c/${zookeeper.key}`;
    const earlier = open('earlier');
    await earlier.publishHolderEntry({ clientId, text: 'before', session: await earlier.session(undefined) });
    expect(await backend.readHolderEntries([clientId, 'none'])).toEqual(['before', undefined]);
    await backend.publishHolderEntry({ clientId, text: 'now', session });
    await earlier.close(false);
    expect(await backend.readHolderEntries([clientId])).toEqual(['now']);
    for (let i = 0; i < 2; i++) await backend.publishHolderEntry({ clientId, text: undefined, session });
    expect(await backend.readHolderEntries([clientId])).toEqual([undefined]);
  });

  it('that do not exist are not swapped when another client has made one meanwhile', async () => {
    await zookeeper.hand.create(`/nest-lock/l/${zookeeper.key}`, HELD);
    expect(await swap(undefined, FREE)).toMatchObject({ isDone: false, row: { version: 1, text: HELD } });
    expect(await zookeeper.hand.textOf(zookeeper.key)).toBe(HELD);
  });

  it('that do not exist are made by a swap, also when all was deleted above them', async () => {
    await zookeeper.hand.delete('/nest-lock/l');
    expect(await swap(undefined, FREE)).toMatchObject({ isDone: true, row: { version: 1, text: FREE } });
  });

  it('are not taken over by a take or a swap for another version', async () => {
    await take(HELD);
    expect(await take(FREE, [], 1)).toMatchObject({ isDone: true, row: { version: 2 } });
    expect(await take(HELD, [], 1)).toMatchObject({ isDone: false, row: { version: 2, text: FREE } });
    expect(await swap(1, HELD)).toMatchObject({ isDone: false, row: { version: 2, text: FREE } });
  });

  it('are not swapped exactly when there are notes that were not read, and keep them otherwise', async () => {
    await take(HELD);
    const first = await take(HELD, ['one']);
    const { notesRead } = first.row;
    const [one] = first.row.notes;
    await take(HELD, ['two']);
    const mergedNotes = [one?.id as string];
    const exact = await swap(1, FREE, { failOnUnreadNotes: true, notesRead, mergedNotes });
    expect(exact).toMatchObject({ isDone: false, row: { version: 1 } });
    const kept = await swap(1, HELD, { notesRead, mergedNotes });
    expect(kept).toMatchObject({ isDone: true, row: { version: 2, notes: [{ text: 'two' }] } });
    const last = await swap(2, FREE, {
      failOnUnreadNotes: true,
      notesRead: kept.row.notesRead,
      mergedNotes: kept.row.notes.map(({ id }) => id),
    });
    expect(last).toMatchObject({ isDone: true, row: { version: 3, notes: [] } });
    expect(await zookeeper.hand.children(`/nest-lock/q/${zookeeper.key}`)).toEqual([]);
  });

  it('lose the notes of a session that ends, and a swap that would take such a note in says what is left', async () => {
    const other = open('other');
    await take(HELD);
    await other.take({
      name: zookeeper.key,
      seen: undefined,
      text: HELD,
      notes: ['gone'],
      session: await other.session(zookeeper.key),
    });
    const { notes, notesRead } = await backend.read(zookeeper.key);
    expect(notes).toMatchObject([{ text: 'gone' }]);
    await other.close(false);
    const swapped = await swap(1, FREE, {
      failOnUnreadNotes: true,
      notesRead,
      mergedNotes: notes.map(({ id }) => id),
    });
    expect(swapped).toMatchObject({ isDone: false, row: { version: 1, notes: [] } });
  });

  it('are told with a gap when messages were overwritten before they were read', async () => {
    const mailbox = '/nest-lock/m/me';
    await Promise.all(Array.from({ length: 20 }, (_, i) => zookeeper.hand.set(mailbox, `message ${i}`)));
    await until(() => messages.at(-1) === 'message 19');
    expect(messages.length === 20 || gaps > 0).toBe(true);
  });

  it('tell which sessions are over', async () => {
    const other = open('other');
    const { id } = await other.session('x');
    expect(await backend.endedAmong([id, session.id, 'never'])).toEqual(['never']);
    await other.close(false);
    expect(await backend.endedAmong([id, session.id])).toEqual([id]);
  });

  it('keep the session for the rest of its time when it is closed with entries', async () => {
    const { id } = session;
    await backend.close(true);
    expect(await zookeeper.hand.statOf(`/nest-lock/s/${id}`)).toBeDefined();
    await until(async () => (await zookeeper.hand.statOf(`/nest-lock/s/${id}`)) === undefined, 10_000);
  });

  it('are deleted when they are free, or their sessions are over, and have not changed for ten minutes', async () => {
    let ahead = 0;
    const clock: Clock = { ...systemClock, now: () => systemClock.now() + ahead };
    const sweeper = new SessionSweeper(backend, clock, () => session.id);
    const names = ['free', 'used', 'left', 'held', 'other', 'noted', 'ahead'];
    for (const name of names) await zookeeper.hand.create(`/nest-lock/l/${name}`, FREE);
    await zookeeper.hand.create('/nest-lock/q/free');
    await zookeeper.hand.create('/nest-lock/q/noted');
    await zookeeper.hand.create('/nest-lock/q/noted/x!0000000000');
    await zookeeper.hand.set('/nest-lock/l/left', HELD);
    await zookeeper.hand.set('/nest-lock/l/held', HELD.replace('"s"', `"${session.id}"`));
    await zookeeper.hand.set('/nest-lock/l/other', 'of another program');
    await zookeeper.hand.set('/nest-lock/l/ahead', `[1,${Number.MAX_SAFE_INTEGER},[],[]]`);
    await sweeper.sweep();
    ahead += 9 * 60_000;
    await sweeper.sweep();
    expect(await zookeeper.hand.children('/nest-lock/l')).toEqual(expect.arrayContaining(names));
    await zookeeper.hand.set('/nest-lock/l/used', FREE);
    ahead += 2 * 60_000;
    await sweeper.sweep();
    const left = await zookeeper.hand.children('/nest-lock/l');
    expect(names.filter((name) => left.includes(name))).toEqual(['used', 'held', 'other', 'noted', 'ahead']);
    expect(await zookeeper.hand.statOf('/nest-lock/q/free')).toBeUndefined();
  });

  it('are deleted also when others beside them cannot be read, or have names that no client made', async () => {
    let ahead = 0;
    const clock: Clock = { ...systemClock, now: () => systemClock.now() + ahead };
    const sweeper = new SessionSweeper(backend, clock, () => session.id);
    const stranger = new ZookeeperHand(zookeeper.server.port, 'other:secret');
    const secret = Operation.create('/nest-lock/l/a secret', { acl: 'own', data: FREE });
    expect(await stranger.send(Request.multi([secret]))).toMatchObject({ content: { isDone: true } });
    await zookeeper.hand.create('/nest-lock/s/0');
    await zookeeper.hand.create('/nest-lock/l/%zz', FREE);
    await zookeeper.hand.create('/nest-lock/l/plain', FREE);
    await sweeper.sweep();
    ahead += 11 * 60_000;
    await sweeper.sweep();
    const left = await zookeeper.hand.children('/nest-lock/l');
    expect(left).toEqual(expect.arrayContaining(['a secret', '%zz']));
    expect(left).not.toContain('plain');
    await stranger.close();
  });
});
