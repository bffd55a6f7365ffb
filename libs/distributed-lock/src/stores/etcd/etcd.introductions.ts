import type { SessionIntroduction } from '../session/session-backend.js';
import type { EtcdClient } from './etcd.client.js';
import type { EtcdKeys } from './etcd.keys.js';
import type { RequestOp, TxnReply } from './etcd.messages.js';
import type { EtcdSession } from './etcd.session.js';

/**
 * What clients tell of themselves. Each request goes by itself, so that no lock is refused with one for which the user of
 * etcd lacks the right.
 */
export class EtcdIntroductions {
  constructor(
    private readonly client: Pick<EtcdClient, 'call'>,
    private readonly keys: EtcdKeys,
  ) {}

  async write({ clientId, text, session }: SessionIntroduction): Promise<void> {
    const key = this.keys.introduction(clientId);
    const { leaseId: lease } = session as EtcdSession;
    if (text === undefined) await this.txn({ requestDeleteRange: { key } });
    else await this.txn({ requestPut: { key, value: Buffer.from(text), lease } });
  }

  read(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    return Promise.all(clientIds.map((clientId) => this.readOne(clientId)));
  }

  private async readOne(clientId: string): Promise<string | undefined> {
    const { responses } = await this.txn({ requestRange: { key: this.keys.introduction(clientId) } });
    return responses[0]?.responseRange?.kvs[0]?.value.toString();
  }

  private txn(operation: RequestOp): Promise<TxnReply> {
    return this.client.call('Txn', { success: [operation] }, { mayRepeat: true });
  }
}
