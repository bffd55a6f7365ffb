import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { until } from '#until';
import { Frames } from '../../../../libs/distributed-lock/src/zookeeper/client/connection.js';
import {
  handshakeFrame,
  JuteReader,
  readHandshake,
  Request,
} from '../../../../libs/distributed-lock/src/zookeeper/client/protocol.js';
import { Ensemble } from '../../../simulation/backends/zookeeper/ensemble.js';
import { requestIn } from '../../../simulation/backends/zookeeper/requests.js';
import { ZookeeperServer } from '../../../simulation/backends/zookeeper/zookeeper-server.js';
import { Dice } from '../../../simulation/kernel/dice.js';
import { Kernel } from '../../../simulation/kernel/kernel.js';
import { Machine } from '../../../simulation/kernel/machine.js';
import { SimProcess } from '../../../simulation/kernel/process.js';

/** A connection and a session on each of the two. */
interface Client {
  readonly real: Socket;
  readonly simulated: (frame: Buffer) => void;
  readonly got: { readonly real: Buffer[]; readonly simulated: Buffer[] };
  xid: number;
}

/** Replies and events by client. */
interface Said {
  readonly real: unknown[];
  readonly simulated: unknown[];
}

const SESSION_MS = 20_000;

/** A real server and a simulated one that are sent the same requests. */
export class TwoZookeepers {
  private readonly dice = new Dice('two ZooKeepers');
  private readonly kernel = new Kernel(this.dice);
  private readonly server: ZookeeperServer;
  private readonly clients: Client[] = [];
  /** Clients by the ids of their sessions. */
  private readonly sessions = new Map<string, number>();
  /** The transactions from which the two are counted. */
  private readonly first = { real: 0, simulated: 0 };

  constructor(private readonly port: number) {
    const lengths = { leastMs: 1000, mostMs: 40_000 };
    const ensemble = new Ensemble(this.kernel, this.dice, { lengths, memberLatencyMs: 0, syncLimitMs: 1000 });
    this.server = new ZookeeperServer('simulated', this.kernel, this.dice, ensemble);
    ensemble.servers.push(this.server);
    ensemble.begin();
  }

  /** @returns the number of the client */
  async open(): Promise<number> {
    const real = connect(this.port, '127.0.0.1');
    await once(real, 'connect');
    const got: Client['got'] = { real: [], simulated: [] };
    const frames = { real: new Frames(), simulated: new Frames() };
    real.on('data', (chunk) => got.real.push(...frames.real.read(chunk)));
    const listener = this.server.accept({
      process: new SimProcess('client', this.kernel, new Machine(1, 0)),
      send: (bytes) => void got.simulated.push(...frames.simulated.read(bytes as Buffer)),
      destroy: () => undefined,
    });
    let isFirst = true;
    const simulated = (bytes: Buffer): void => {
      const request = requestIn(bytes.subarray(4), isFirst);
      isFirst = false;
      listener.onMessage(request);
    };
    const client = { real, simulated, got, xid: 0 };
    const number = this.clients.push(client) - 1;
    const handshake = { sessionId: 0n, password: Buffer.alloc(16), timeoutMs: SESSION_MS, lastZxid: 0 };
    await this.sendBytes(client, handshakeFrame(handshake));
    for (const replies of [got.real, got.simulated]) {
      const reply = readHandshake(new JuteReader(replies.pop() as Buffer));
      this.sessions.set(BigInt.asUintN(64, reply.sessionId).toString(16).padStart(16, '0'), number);
    }
    if (number === 0) await this.countFromHere(client);
    return number;
  }

  /** @returns what each of the two has said to all clients */
  async send(number: number, request: Request<unknown>): Promise<Said> {
    const client = this.clients[number] as Client;
    await this.sendBytes(client, request.frame(++client.xid));
    const said: Said = { real: [], simulated: [] };
    for (const { got } of this.clients) {
      await until(() => got.real.length >= got.simulated.length);
      for (const side of ['real', 'simulated'] as const)
        said[side].push(got[side].splice(0).map((frame) => this.read(frame, side, request)));
    }
    return said;
  }

  close(): void {
    for (const { real } of this.clients) real.destroy();
  }

  private async sendBytes({ real, simulated, got }: Client, bytes: Buffer): Promise<void> {
    real.write(bytes);
    simulated(bytes);
    // What else the real one says of the same request comes before its reply.
    await until(() => got.real.length >= got.simulated.length);
  }

  private async countFromHere(client: Client): Promise<void> {
    await this.sendBytes(client, Request.sync('/').frame(++client.xid));
    for (const side of ['real', 'simulated'] as const)
      this.first[side] = headIn(new JuteReader(client.got[side].pop() as Buffer)).zxid;
  }

  private read(frame: Buffer, side: 'real' | 'simulated', request: Request<unknown>): unknown {
    const reader = new JuteReader(frame);
    const { xid, zxid, code } = headIn(reader);
    if (xid === -1) return { path: pathOfEvent(reader) };
    const content = code === 0 ? request.read(reader) : undefined;
    return { xid, code, zxid: zxid - this.first[side], content: this.comparable(content, side) };
  }

  /** Without what differs from server to server. */
  private comparable(content: unknown, side: 'real' | 'simulated'): unknown {
    const text = JSON.stringify(content ?? null, (name, value: unknown) => {
      if (/^[cmp]zxid$/.test(name) && Number(value) > 0) return Number(value) - this.first[side];
      if (name === 'owner') return this.sessions.get(String(value)) ?? value;
      return name === 'names' ? (value as string[]).toSorted() : value;
    });
    return JSON.parse(text);
  }
}

function headIn(reader: JuteReader) {
  return { xid: reader.int(), zxid: reader.number(), code: reader.int() };
}

function pathOfEvent(reader: JuteReader): string {
  reader.int(); // its kind
  reader.int(); // the state of the session
  return reader.text();
}
