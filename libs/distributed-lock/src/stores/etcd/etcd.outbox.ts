import { inBackground } from '../../async-context/in-background.js';
import type { EtcdClient } from './etcd.client.js';
import type { EtcdKeys } from './etcd.keys.js';
import type { RequestOp } from './etcd.messages.js';

/** So many clients, and about so many characters, are told in one transaction. */
const MOST_CLIENTS = 100;
const MOST_LENGTH = 256 * 1024;

/**
 * The messages of this client that go by themselves, because no write has to wait for them, or because the transaction of
 * their write has another message to the same client. One transaction is in flight at a time, and the messages that come
 * meanwhile go together in the next one.
 *
 * They need no fence: the document in one that is executed late is older than what its receiver knows.
 */
export class EtcdOutbox {
  /** By client and name: a later document of a name takes the place of an earlier one. */
  private readonly waiting = new Map<string, Map<string, string>>();
  private isSending = false;

  constructor(
    private readonly client: Pick<EtcdClient, 'call'>,
    private readonly keys: EtcdKeys,
  ) {}

  tell(client: string, name: string, text: string): void {
    const texts = this.waiting.get(client) ?? new Map<string, string>();
    this.waiting.set(client, texts.set(name, text));
    if (!this.isSending) inBackground(this.sendAll(), () => undefined);
  }

  close(): void {
    this.waiting.clear();
  }

  private async sendAll(): Promise<void> {
    this.isSending = true;
    // Those of one turn go together.
    await Promise.resolve();
    while (this.waiting.size > 0) {
      // The waiters whose messages are lost recheck.
      await this.client.call('Txn', { success: this.takeSome() }, { mayRepeat: true }).catch(() => undefined);
    }
    this.isSending = false;
  }

  private takeSome(): readonly RequestOp[] {
    const operations: RequestOp[] = [];
    let length = 0;
    for (const [client, texts] of this.waiting) {
      if (operations.length === MOST_CLIENTS || length > MOST_LENGTH) break;
      const taken: string[] = [];
      for (const [name, text] of texts) {
        if (length > MOST_LENGTH) break;
        length += text.length;
        texts.delete(name);
        taken.push(text);
      }
      if (texts.size === 0) this.waiting.delete(client);
      operations.push(messageTo(this.keys, client, taken));
    }
    return operations;
  }
}

/** Puts texts without line breaks into the mailbox of a client. A client that is gone has none. */
export function messageTo(keys: EtcdKeys, client: string, texts: readonly string[]): RequestOp {
  const key = keys.mailbox(client);
  return {
    requestTxn: {
      compare: [{ key, target: 'CREATE', result: 'GREATER', createRevision: 0 }],
      success: [{ requestPut: { key, value: Buffer.from(texts.join('\n')), ignoreLease: true } }],
    },
  };
}
