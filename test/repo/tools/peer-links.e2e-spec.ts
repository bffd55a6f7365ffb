import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { until } from '#until';
import { PeerLinks } from '../../../tools/peer-links/index.mjs';

describe('the links between the members of a cluster', () => {
  let links: PeerLinks;
  const closing: (() => unknown)[] = [];

  beforeEach(() => {
    links = new PeerLinks();
  });
  afterEach(async () => {
    for (const close of closing.splice(0)) close();
    await links.close();
  });

  /** A member that repeats what it is told. */
  async function memberThatEchoes(): Promise<number> {
    const server = createServer((socket) => socket.on('error', () => undefined).pipe(socket));
    closing.push(() => server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return (server.address() as AddressInfo).port;
  }

  /** A connection of one member to another, and what has come back. */
  async function connection({ from, to }: { from: number; to: number }) {
    const proxy = await links.before(await memberThatEchoes(), { from, to });
    return connectionTo(proxy.port);
  }

  async function connectionTo(port: number) {
    const heard: string[] = [];
    const socket: Socket = connect(port, '127.0.0.1').on('error', () => undefined);
    closing.push(() => socket.destroy());
    socket.on('data', (chunk) => heard.push(chunk.toString()));
    await once(socket, 'connect');
    return { socket, heard, say: (text: string) => socket.write(text) };
  }

  /** Resolves when it hears what it says. */
  async function echo({ say, heard }: Awaited<ReturnType<typeof connection>>): Promise<void> {
    say('hello');
    await until(() => heard.includes('hello'));
    heard.length = 0;
  }

  it('carry what is said, until they are cut, and break when they are mended', async () => {
    const [cut, spared] = [await connection({ from: 1, to: 2 }), await connection({ from: 2, to: 3 })];
    await Promise.all([echo(cut), echo(spared)]);
    links.cut(2, 1);
    cut.say('lost');
    await echo(spared);
    expect([cut.heard, cut.socket.destroyed]).toEqual([[], false]);
    links.mend();
    await until(() => cut.socket.destroyed);
    await echo(spared);
    await echo(await connection({ from: 1, to: 2 }));
  });

  it('of an isolated member carry nothing either way, whoever has connected', async () => {
    const all = [await connection({ from: 1, to: 2 }), await connection({ from: 3, to: 1 })];
    await Promise.all(all.map(echo));
    links.isolate(1);
    for (const { say } of all) say('lost');
    await echo(await connection({ from: 2, to: 3 }));
    expect(all.map(({ heard }) => heard)).toEqual([[], []]);
  });

  it('learn from the first bytes who has connected, where a member has one address for all', async () => {
    const proxy = await links.before(await memberThatEchoes(), {
      to: 2,
      from: (chunk) => Number(/I am (\d)/.exec(chunk.toString())?.[1]) || undefined,
    });
    links.cut(1, 2);
    const [cut, spared] = [await connectionTo(proxy.port), await connectionTo(proxy.port)];
    cut.say('I am 1');
    spared.say('I am 3');
    await until(() => spared.heard.includes('I am 3'));
    expect(cut.heard).toEqual([]);
  });

  it('delay what the member says and hears, until they are mended', async () => {
    const [slow, fast] = [await connection({ from: 1, to: 2 }), await connection({ from: 2, to: 3 })];
    links.delay(1, 60);
    const startedAt = performance.now();
    await echo(fast);
    await echo(slow);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(115);
    links.mend();
    await echo(slow);
  });
});
