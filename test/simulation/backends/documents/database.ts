import type { Clock } from '../../../../libs/distributed-lock/src/common/clock.js';
import type {
  ScannedRow,
  SqlDatabase,
  SqlFailure,
  SqlLink,
} from '../../../../libs/distributed-lock/src/sql/database.js';
import type { SimProcess } from '../../kernel/process.js';
import type { SimServer } from '../../kernel/server.js';
import type { ClientEnd } from '../../network/connection.js';
import type { Network } from '../../network/network.js';
import { type BatchedKind, requestOf, type WireReply } from './wire.js';

class Refused extends Error {}

interface Waiting {
  resolve(reply: WireReply): void;
  reject(error: Error): void;
}

/** The driver of one process: what a client library of SQL is to the stores. One request is in flight at a time. */
export class SimDatabase implements SqlDatabase {
  readonly server = 'SQL';
  readonly location = 'nest_lock';

  constructor(
    private readonly network: Network,
    private readonly process: SimProcess,
    private readonly at: SimServer,
    private readonly clock: Clock,
  ) {}

  failureOf(error: unknown): SqlFailure {
    const detail = (error as Error).message;
    return error instanceof Refused ? { reason: 'unready', detail } : { reason: 'unknown', detail };
  }

  open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlLink> {
    return new Promise((resolve, reject) => {
      let waiting: Waiting | undefined;
      const ask = (payload: unknown, kind: string): Promise<WireReply> =>
        new Promise((answered, failed) => {
          waiting = { resolve: answered, reject: failed };
          end.send(payload, kind);
        });
      const end: ClientEnd = this.network.connect(this.process, this.at, {
        onOpen: () => void this.greet(ask, end).then(resolve, reject),
        onMessage: (reply) => waiting?.resolve(reply as WireReply),
        onClose: () => {
          const error = new Error('the connection was closed');
          waiting?.reject(error);
          reject(error);
          onLost(error);
        },
      });
      signal.addEventListener('abort', () => {
        end.destroy();
        reject(signal.reason as Error);
      });
    });
  }

  private async greet(
    ask: (payload: unknown, kind: string) => Promise<WireReply>,
    end: ClientEnd,
  ): Promise<SqlLink> {
    const sentAt = this.clock.now();
    const hello = (await ask({ kind: 'hello' }, 'hello')) as { readonly now: number };
    const execute = <Kind extends BatchedKind>(kind: Kind): SqlLink[Kind] =>
      (async (items: Parameters<SqlLink[Kind]>[0]) =>
        repliesIn(await ask(requestOf(kind, items), kind))) as SqlLink[Kind];
    return {
      opened: { now: hello.now, sentAt },
      take: execute('take'),
      swap: execute('swap'),
      read: execute('read'),
      scan: async (after, most) =>
        repliesIn(await ask({ kind: 'scan', after, most }, 'scan')) as readonly ScannedRow[],
      deleteFree: async (names) => void repliesIn(await ask({ kind: 'deleteFree', names }, 'deleteFree')),
      ping: async () => void repliesIn(await ask({ kind: 'ping' }, 'ping')),
      destroy: () => end.destroy(),
    };
  }
}

function repliesIn(reply: WireReply): readonly unknown[] {
  if ('refused' in reply) throw new Refused(reply.refused);
  return (reply as { readonly replies: readonly unknown[] }).replies;
}
