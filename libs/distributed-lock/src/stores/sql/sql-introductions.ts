import { LOCK } from '../../port/claim.js';
import type { Introduction } from '../../port/lock-store.js';
import { asciiText, textIn } from '../core/ascii-text.js';
import { isOver, type Reading } from '../core/document.js';
import { introductionRow } from './lock-name.js';
import type { SqlDocuments } from './sql-documents.js';

/**
 * The introductions of the clients of a lock table. Each is a row with a document whose only holder is the client, and the text
 * stands in place of the nonce. An older version of this library takes the row for a lock, and sweeps it when its lease is over.
 */
export class SqlIntroductions {
  constructor(
    private readonly documents: SqlDocuments,
    private readonly commandTimeoutMs: number,
  ) {}

  async write({ clientId, text, leaseMs }: Introduction): Promise<void> {
    const name = introductionRow(clientId);
    const owner = `${clientId}:0`;
    const expected = await this.present(name, owner, leaseMs);
    const holder = {
      owner,
      claim: LOCK,
      token: 1,
      lastToken: 1,
      until: { inMs: leaseMs },
      nonce: asciiText(text),
    };
    await this.documents.swap({
      name,
      expected,
      next: { holders: [holder], queue: [] },
      lastToken: expected.lastToken,
      isExact: false,
      notified: [],
      mayBeForgotten: true,
      notAfter: () => Math.ceil(expected.now + 2 * this.commandTimeoutMs),
    });
  }

  async read(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    const readings = await Promise.all(clientIds.map((id) => this.documents.read(introductionRow(id))));
    return readings.map(({ document, now }) => {
      const [holder] = document.holders;
      return holder?.nonce && !isOver(holder.until, now) ? textIn(holder.nonce) : undefined;
    });
  }

  /** @returns the row, which this makes if there is none */
  private async present(name: string, owner: string, leaseMs: number): Promise<Reading> {
    const found = await this.documents.read(name);
    if (found.version !== undefined) return found;
    const request = { key: name, owner, claim: LOCK, leaseMs, waitMs: 0, ticket: 0, tokens: 1 };
    const notAfter = () => Math.ceil(found.now + 2 * this.commandTimeoutMs);
    return (await this.documents.takeRow({ name, request, minToken: 0, notes: [], notAfter })).reading;
  }
}
