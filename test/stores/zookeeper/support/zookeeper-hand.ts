import { until } from '#until';
import { systemChance, systemClock } from '../../../../libs/distributed-lock/src/common/clock.js';
import { Connection, type Reply } from '../../../../libs/distributed-lock/src/zookeeper/client/connection.js';
import {
  type Acl,
  ANY_VERSION,
  CODE,
  type Node,
  Operation,
  Request,
} from '../../../../libs/distributed-lock/src/zookeeper/client/protocol.js';
import { ZookeeperSession } from '../../../../libs/distributed-lock/src/zookeeper/client/session.js';
import { LockPaths } from '../../../../libs/distributed-lock/src/zookeeper/znodes.js';

/** Does to the znodes what an administrator does, over a session of its own. */
export class ZookeeperHand {
  readonly session: ZookeeperSession;
  readonly paths = new LockPaths('/nest-lock');

  constructor(
    private readonly port: number,
    credentials?: string,
  ) {
    this.session = new ZookeeperSession(
      {
        clock: systemClock,
        chance: systemChance,
        servers: [{ host: '127.0.0.1', port }],
        tls: undefined,
        auth: credentials,
        timeoutMs: 30_000,
        commandTimeoutMs: 5000,
        lastZxid: 0,
        keepAlive: () => this.session.send(Request.sync('/')),
      },
      { onConnected: nothing, onDisconnected: nothing, onWatch: nothing, onEnd: nothing },
    );
  }

  async get(path: string): Promise<Node | undefined> {
    return this.send(Request.getData(path)).then(
      ({ content }) => content,
      () => undefined,
    );
  }

  async statOf(path: string): Promise<Node['stat'] | undefined> {
    return this.send(Request.exists(path)).then(
      ({ content }) => content,
      () => undefined,
    );
  }

  async children(path: string): Promise<readonly string[]> {
    return (await this.send(Request.getChildren(path))).content.names;
  }

  /** The document of a lock. */
  async textOf(key: string): Promise<string | undefined> {
    return (await this.get(this.paths.documentOf(key)))?.data;
  }

  create(path: string, data = '', acl: Acl = 'open'): Promise<void> {
    return this.change(Operation.create(path, { acl, data }));
  }

  set(path: string, data: string): Promise<void> {
    return this.change(Operation.setData(path, data, ANY_VERSION));
  }

  /** With all that is below it, also what clients write there meanwhile. */
  async delete(path: string): Promise<void> {
    for (const child of await this.children(path)) await this.delete(`${path}/${child}`);
    const { content } = await this.send(Request.multi([Operation.remove(path, ANY_VERSION)]));
    if (content.isDone || content.code === CODE.noNode) return;
    if (content.code !== CODE.notEmpty) throw refused(content.code);
    await this.delete(path);
  }

  /** Ends the session of another client, which then finds that it has expired. */
  expire(id: string): Promise<void> {
    const sessionId = BigInt.asIntN(64, BigInt(`0x${id}`));
    return new Promise((resolve, reject) => {
      const connection = new Connection(
        {
          clock: systemClock,
          server: { host: '127.0.0.1', port: this.port },
          tls: undefined,
          handshake: { sessionId, password: passwordOf(sessionId), timeoutMs: 5000, lastZxid: 0 },
          silentMs: 5000,
        },
        {
          onOpen: () => void connection.send(Request.closeSession).then(() => resolve(), reject),
          onWatch: nothing,
          onZxid: nothing,
          onLost: reject,
        },
      );
    });
  }

  close(): Promise<void> {
    return this.session.close(false);
  }

  /** Once there is a connection. */
  async send<Content>(request: Request<Content>): Promise<Reply<Content>> {
    await until(() => this.session.isConnected);
    return this.session.send(request);
  }

  private async change(operation: Operation): Promise<void> {
    const { content } = await this.send(Request.multi([operation]));
    if (!content.isDone) throw refused(content.code);
  }
}

function refused(code: number): Error {
  return new Error(`The server refused it with code ${code}.`);
}

function nothing(): void {}

/** The server draws the password of a session from Java's random numbers, with the session's id as the seed. */
function passwordOf(sessionId: bigint): Buffer {
  const multiplier = 0x5deece66dn;
  let seed = BigInt.asUintN(48, sessionId ^ 0xb3415c00n ^ multiplier);
  const password = Buffer.alloc(16);
  for (let i = 0; i < 16; i += 4) {
    seed = BigInt.asUintN(48, seed * multiplier + 0xbn);
    password.writeUInt32LE(Number(seed >> 16n), i);
  }
  return password;
}
