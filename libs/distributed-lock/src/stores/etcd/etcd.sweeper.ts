import { contentOf } from '../session/session-text.js';
import type { EtcdClient } from './etcd.client.js';
import type { EtcdKeys } from './etcd.keys.js';
import type { EtcdKeyValue, RequestOp, ResponseOp } from './etcd.messages.js';

/** Documents that one request reads, and requests of one sweep. */
const PAGE = 100;
const MOST_PAGES = 500;
/** A key beside the sessions that was made by hand sweeps nothing. */
const SESSION_ID = /^[0-9a-f]+$/;

/**
 * Deletes what processes that were killed have left: documents of which all sessions are over, and that nobody waits for. A
 * version is never used twice, so that whoever has read a document before finds that it is gone.
 *
 * Only the client sweeps whose session has the least id. The others ask for the ids and do nothing else.
 */
export class EtcdSweeper {
  /** The last document that was looked at: the next sweep goes on behind it. */
  private after: Buffer | undefined;

  constructor(private readonly options: SweeperOptions) {}

  async sweep(): Promise<void> {
    if (!(await this.isFirst())) return;
    for (let pages = 0; pages < MOST_PAGES; pages++) {
      const requestRange = { ...this.options.keys.documents('', this.after), limit: PAGE };
      const { responses, revision } = await this.txn([{ requestRange }]);
      const found = responses[0]?.responseRange?.kvs ?? [];
      await this.deleteOver(found, revision);
      this.after = found.length < PAGE ? undefined : found.at(-1)?.key;
      if (!this.after) return;
    }
  }

  private async isFirst(): Promise<boolean> {
    const { keys, sessionId } = this.options;
    const own = sessionId();
    if (own === undefined) return false;
    const requestRange = { ...keys.sessions(), limit: PAGE, keysOnly: true };
    const { responses } = await this.txn([{ requestRange }]);
    const ids = responses[0]?.responseRange?.kvs.map(({ key }) => keys.sessionId(key)) ?? [];
    return !ids.some((id) => SESSION_ID.test(id) && id < own);
  }

  private async deleteOver(found: readonly EtcdKeyValue[], revision: number): Promise<void> {
    const documents = found.flatMap((each) => this.idleIn(each, revision) ?? []);
    const sessions = [...new Set(documents.flatMap((document) => document.sessions))];
    const alive = new Set(await this.aliveAmong(sessions));
    const over = documents.filter((document) => !document.sessions.some((session) => alive.has(session)));
    if (over.length === 0) return;
    await this.txn(over.map((document) => this.deletionOf(document)));
  }

  /** A token of the document may be larger than the next revision, which the token of a new document would be. */
  private idleIn({ key, value, modRevision }: EtcdKeyValue, revision: number): IdleDocument | undefined {
    const name = this.options.keys.nameOf(key);
    try {
      const { document, lastToken } = contentOf(value.toString(), modRevision, name);
      if (lastToken > revision) return undefined;
      const sessions = [...document.holders, ...document.queue].flatMap(({ session }) => session ?? []);
      return { name, version: modRevision, sessions };
    } catch {
      // This release has not written it.
      return undefined;
    }
  }

  private async aliveAmong(sessions: readonly string[]): Promise<readonly string[]> {
    const { keys } = this.options;
    const alive: string[] = [];
    for (let at = 0; at < sessions.length; at += PAGE) {
      const asked = sessions.slice(at, at + PAGE);
      const ranges = asked.map((id) => ({ requestRange: { key: keys.session(id), countOnly: true } }));
      const { responses } = await this.txn(ranges);
      alive.push(...asked.filter((_, i) => responses[i]?.responseRange?.count !== 0));
    }
    return alive;
  }

  private deletionOf({ name, version }: IdleDocument): RequestOp {
    const { keys } = this.options;
    const key = keys.document(name);
    return {
      requestTxn: {
        compare: [
          { key, target: 'MOD', result: 'EQUAL', modRevision: version },
          { ...keys.notes(name), target: 'CREATE', result: 'EQUAL', createRevision: 0 },
        ],
        success: [{ requestDeleteRange: { key } }],
      },
    };
  }

  private async txn(
    success: readonly RequestOp[],
  ): Promise<{ readonly responses: readonly ResponseOp[]; readonly revision: number }> {
    const { header, responses } = await this.options.client.call('Txn', { success });
    return { responses, revision: header?.revision ?? 0 };
  }
}

interface SweeperOptions {
  readonly client: Pick<EtcdClient, 'call'>;
  readonly keys: EtcdKeys;
  /** The id of the session of this client, if it has one. */
  readonly sessionId: () => string | undefined;
}

interface IdleDocument {
  readonly name: string;
  readonly version: number;
  readonly sessions: readonly string[];
}
