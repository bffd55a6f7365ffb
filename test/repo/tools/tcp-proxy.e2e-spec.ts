import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Flow, TcpProxy } from '#tcp-proxy';
import { until } from '#until';

/** A flow, and what has arrived at its end. */
function flowing() {
  const arrived: string[] = [];
  const flow = new Flow({ writable: true, write: (chunk) => arrived.push(chunk.toString()) });
  const carry = (...pieces: string[]) => pieces.forEach((piece) => flow.carry(Buffer.from(piece)));
  return { flow, arrived, carry };
}

describe('a flow of the proxy', () => {
  it('delivers in order, also when its delay shrinks while pieces are under way', async () => {
    const { flow, arrived, carry } = flowing();
    flow.pass(50);
    carry('1', '2');
    flow.pass(10);
    carry('3');
    flow.pass();
    carry('4');
    expect(arrived).toEqual([]);
    await until(() => arrived.length === 4);
    expect(arrived).toEqual(['1', '2', '3', '4']);
  });

  it('delivers at once without a delay, and what it held in the order in which it came', () => {
    const { flow, arrived, carry } = flowing();
    carry('1');
    flow.hold();
    carry('2', '3');
    expect(arrived).toEqual(['1']);
    flow.pass();
    expect(arrived).toEqual(['1', '2', '3']);
  });

  it('loses what it is told to lose, and all while it drops', () => {
    const { flow, arrived, carry } = flowing();
    flow.loses = (chunk) => chunk.includes('message');
    carry('1', 'a message', '2');
    flow.drop();
    carry('3');
    expect(arrived).toEqual(['1', '2']);
    expect(flow.droppedBytes).toBe('a message3'.length);
  });

  it('carries in the place of each piece what it is edited to', () => {
    const { flow, arrived, carry } = flowing();
    flow.edit = (chunk) => Buffer.from(`${chunk.toString()}!`);
    carry('1', '2');
    expect(arrived).toEqual(['1!', '2!']);
  });
});

describe('a proxy before an SQL server', () => {
  const closing: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });

  /** A server that answers each connection with its own name. */
  async function serverNamed(name: string): Promise<number> {
    // Each is read, or it would not notice that its client has closed it.
    const server: Server = createServer((it) =>
      it
        .resume()
        .on('error', () => undefined)
        .write(name),
    );
    closing.unshift(() => server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return (server.address() as AddressInfo).port;
  }

  async function proxyBefore(port: number): Promise<TcpProxy> {
    const proxy = await TcpProxy.before(port, { protocol: 'sql' });
    closing.unshift(() => proxy.close());
    return proxy;
  }

  /** A client, and what it hears first. */
  async function clientOf({ port }: TcpProxy) {
    const client = connect(port, '127.0.0.1').on('error', () => undefined);
    closing.unshift(() => client.destroy());
    const [heard] = (await once(client, 'data')) as [Buffer];
    return { client, heard: heard.toString() };
  }

  it('tells the connection that listens from the one that carries statements', async () => {
    const proxy = await proxyBefore(await serverNamed('primary'));
    const { client: listener } = await clientOf(proxy);
    const { client } = await clientOf(proxy);
    listener.write('Q\0\0\0\x0cLISTEN x;');
    client.write('Q\0\0\0\x0cSELECT 1;');
    await until(() => proxy.open.every((link) => link.has('listen') || link.carriesCommands));
    expect(proxy.pushes).toBe(proxy.open[0]);
    expect(proxy.commands).toBe(proxy.open[1]);
  });

  it('leads new connections to another server after a failover', async () => {
    const proxy = await proxyBefore(await serverNamed('primary'));
    expect((await clientOf(proxy)).heard).toBe('primary');
    proxy.targetPort = await serverNamed('standby');
    expect((await clientOf(proxy)).heard).toBe('standby');
  });
});
