import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { Link } from './link.mjs';
import { RespRequests } from './resp-requests.mjs';
import { SqlRequests } from './sql-requests.mjs';

const PARSERS = {
  redis: () => new RespRequests(),
  sql: () => new SqlRequests(),
  any: () => ({ read: () => [['COMMAND']] }),
};

export class TcpProxy {
  onLink = () => undefined;
  all = [];
  #server;

  /** @param {import('node:net').Server} server @param {number} targetPort @param {Required<import('./index.d.mts').TcpProxyOptions>} options */
  constructor(server, targetPort, { keepsCommands, protocol }) {
    this.#server = server;
    this.targetPort = targetPort;
    server.on('connection', (client) => {
      const link = new Link(
        client,
        connect(this.targetPort, '127.0.0.1'),
        PARSERS[protocol](),
        keepsCommands,
      );
      if (!keepsCommands) this.all = this.open;
      this.all.push(link);
      this.onLink(link);
    });
  }

  static async before(targetPort, { keepsCommands = true, protocol = 'redis' } = {}) {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new TcpProxy(server, targetPort, { keepsCommands, protocol });
  }

  get port() {
    return this.#server.address().port;
  }

  get url() {
    return `redis://127.0.0.1:${this.port}`;
  }

  get open() {
    return this.all.filter((link) => link.isOpen);
  }

  get pushes() {
    return newest(this.open.filter((link) => link.has('subscribe') || link.has('listen')));
  }

  get commands() {
    return newest(this.open.filter((link) => link.carriesCommands));
  }

  async close() {
    this.#server.close();
    for (const link of this.all) link.destroy();
    await once(this.#server, 'close');
  }
}

function newest(links) {
  const link = links.at(-1);
  if (!link) throw new Error('There is no such connection.');
  return link;
}
