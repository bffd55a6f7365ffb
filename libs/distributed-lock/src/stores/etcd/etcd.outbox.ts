import { inBackground } from '../../async-context/in-background.js';
import type { EtcdClient } from './etcd.client.js';
import type { EtcdKeys } from './etcd.keys.js';
import type { Messages } from '../session/session-backend.js';
import type { Compare, RequestOp } from './etcd.messages.js';

/** Limits of one transaction of messages: clients, and characters of all texts together. */
const MAX_CLIENTS = 100;
const MAX_LENGTH = 256 * 1024;

/**
 * The messages of this client that have a transaction of their own, because no write waits for them, or because the
 * transaction of their write had no room. One transaction is in flight at a time, and the messages that come meanwhile go
 * together in the next one.
 *
 * They need no fence, because the receiver ignores a document that is older than the one it knows.
 */
export class EtcdOutbox {
  /** The messages to send, by client and name. A later document of a name replaces an earlier one. */
  private readonly waiting = new Map<string, Map<string, string>>();
  private isSending = false;

  constructor(
    private readonly client: Pick<EtcdClient, 'call'>,
    private readonly keys: EtcdKeys,
  ) {}

  /** @param told the clients that have the message already @param revision the revision of the write, if there was one */
  tell({ name, clients, text }: Messages, told: readonly string[] = [], revision = 0): void {
    const others = clients.filter((client) => !told.includes(client));
    if (others.length === 0) return;
    const message = text(revision, revision);
    for (const client of others) {
      const texts = this.waiting.get(client) ?? new Map<string, string>();
      this.waiting.set(client, texts.set(name, message));
    }
    if (!this.isSending) inBackground(this.sendAll(), () => undefined);
  }

  close(): void {
    this.waiting.clear();
  }

  private async sendAll(): Promise<void> {
    this.isSending = true;
    // The messages of one turn of the event loop go together.
    await Promise.resolve();
    while (this.waiting.size > 0) {
      // A waiter whose message is lost rechecks.
      await this.client.call('Txn', { success: this.takeSome() }, { mayRepeat: true }).catch(() => undefined);
    }
    this.isSending = false;
  }

  private takeSome(): readonly RequestOp[] {
    const operations: RequestOp[] = [];
    let length = 0;
    for (const [client, texts] of this.waiting) {
      if (operations.length === MAX_CLIENTS || length > MAX_LENGTH) break;
      const taken: string[] = [];
      for (const [name, text] of texts) {
        if (length > MAX_LENGTH) break;
        length += text.length;
        texts.delete(name);
        taken.push(text);
      }
      if (texts.size === 0) this.waiting.delete(client);
      const compare = [isThere(this.keys, client)];
      operations.push({ requestTxn: { compare, success: [putMessages(this.keys, client, taken)] } });
    }
    return operations;
  }
}

/** Puts texts without line breaks into the mailbox of a client, which must exist. */
export function putMessages(keys: EtcdKeys, client: string, texts: readonly string[]): RequestOp {
  const value = Buffer.from(texts.join('\n'));
  return { requestPut: { key: keys.mailbox(client), value, ignoreLease: true } };
}

/** A client that is gone has no mailbox. */
export function isThere(keys: EtcdKeys, client: string): Compare {
  return { key: keys.mailbox(client), target: 'CREATE', result: 'GREATER', createRevision: 0 };
}
