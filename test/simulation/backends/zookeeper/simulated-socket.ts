import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { type Connect, Frames } from '../../../../libs/distributed-lock/src/zookeeper/client/connection.js';
import type { SimProcess } from '../../kernel/process.js';
import type { SimServer } from '../../kernel/server.js';
import type { ClientEnd } from '../../network/connection.js';
import type { Network } from '../../network/network.js';
import { socketError } from '../../redis/socket/line.js';
import { kindOf } from './kinds.js';
import { requestIn } from './requests.js';

/** Connects the client to simulated servers, whose names are their hosts. */
export function simulatedConnect(
  network: Network,
  process: SimProcess,
  servers: readonly SimServer[],
): Connect {
  return ({ host }) => {
    const server = servers.find(({ name }) => name === host) as SimServer;
    return new SimulatedSocket(network, process, server) as unknown as Socket;
  };
}

/** What the client uses of `net.Socket`. Each request is a message of its own, also when several are written at once. */
class SimulatedSocket extends EventEmitter {
  writable = true;
  private readonly connection: ClientEnd;
  private readonly frames = new Frames();
  private isOpen = false;
  private hasBegun = false;

  constructor(network: Network, process: SimProcess, server: SimServer) {
    super();
    this.connection = network.connect(process, server, {
      onOpen: () => {
        this.isOpen = true;
        this.emit('connect');
      },
      onMessage: (bytes) => this.emit('data', bytes),
      onClose: () => this.onClose(),
    });
  }

  write(bytes: Buffer): void {
    for (const frame of this.frames.read(bytes)) {
      const request = requestIn(frame, !this.hasBegun);
      this.hasBegun = true;
      this.connection.send(request, kindOf(request));
    }
  }

  destroy(): void {
    this.writable = false;
    this.connection.destroy();
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  private onClose(): void {
    this.writable = false;
    this.emit(
      'error',
      this.isOpen ? socketError('ECONNRESET', 'read') : socketError('ECONNREFUSED', 'connect'),
    );
    this.emit('close');
  }
}
