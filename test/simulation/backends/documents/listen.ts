import type { Listen } from '../../../../libs/distributed-lock/src/postgres/target.js';
import type { SimProcess } from '../../kernel/process.js';
import type { SimServer } from '../../kernel/server.js';
import type { ClientEnd } from '../../network/connection.js';
import type { Network } from '../../network/network.js';
import type { WireReply } from './wire.js';

const RECONNECT_MS = 50;

/** A connection for notifications, as a tool of the application would keep it: opened again when it breaks, without a word. */
export function listenBy(network: Network, process: SimProcess, server: SimServer): Listen {
  return (channel, onNotification) =>
    new Promise((resolve) => {
      let end: ClientEnd | undefined;
      let cancel = (): void => undefined;
      const stop = async (): Promise<void> => {
        cancel();
        cancel = () => undefined;
        end?.destroy();
      };
      const open = (): void => {
        end = network.connect(process, server, {
          onOpen: () => end?.send({ kind: 'listen', channel }, 'listen'),
          onMessage: (payload) => {
            const reply = payload as WireReply;
            if ('notified' in reply) onNotification(reply.notified);
            else resolve(stop);
          },
          onClose: () => (cancel = process.setTimeout(RECONNECT_MS, open)),
        });
      };
      open();
    });
}
