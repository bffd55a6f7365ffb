import type { SimProcess } from '../../kernel/process.js';
import type { SimServer } from '../../kernel/server.js';
import type { ClientEnd } from '../../network/connection.js';
import type { Network } from '../../network/network.js';
import { socketError, type Line, type LineEvents } from '../../redis/socket/line.js';
import { commandsIn, kindOfCommand } from './kinds.js';

/** One command under way to a server. */
export interface Request {
  readonly kind: string;
  readonly bytes: string;
}

/** A connection of ioredis through the network of the simulation. Each command is a message of its own. */
export class SimulatedLine implements Line {
  private connection: ClientEnd | undefined;

  constructor(
    private readonly network: Network,
    private readonly process: SimProcess,
    private readonly server: SimServer,
  ) {}

  open(events: LineEvents): void {
    let isOpen = false;
    this.connection = this.network.connect(this.process, this.server, {
      onOpen: () => {
        isOpen = true;
        events.onConnect();
      },
      onMessage: (payload) => events.onData(payload as string),
      onClose: () =>
        events.onError(isOpen ? socketError('ECONNRESET', 'read') : socketError('ECONNREFUSED', 'connect')),
    });
  }

  write(bytes: string): void {
    for (const command of commandsIn(bytes)) {
      const request: Request = { kind: kindOfCommand(command), bytes: command };
      this.connection?.send(request, request.kind);
    }
  }

  end(): void {
    this.connection?.destroy();
  }

  destroy(): void {
    this.connection?.destroy();
  }
}
