import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Reading } from '../document/document.js';
import { ManualClock } from '../testing/manual-clock.js';
import type {
  BackendListener,
  StoredDocument,
  Session,
  SessionBackend,
  SessionHolderEntry,
  SessionSwap,
  SessionWriteReply,
} from './backend.js';
import { SessionRegister } from './register.js';
import { serializeSessionDocument } from './json.js';

const FREE = { holders: [], queue: [] };

/** A back end whose answers the test gives. */
class Answers {
  readonly commandTimeoutMs = 100;
  readonly swaps: SessionSwap[] = [];
  readonly introduced: (string | undefined)[] = [];
  row: StoredDocument = {
    name: 'k',
    version: 700,
    writtenAt: 700,
    revision: 710,
    text: serializeSessionDocument(FREE, 5, 's1'),
    notes: [],
    notesRead: 0,
  };
  listener: BackendListener | undefined;
  beforeSession = (): void => undefined;
  session1: Session = { id: 's1', validUntil: 30_000 };

  listen(listener: BackendListener): void {
    this.listener = listener;
  }

  async session(): Promise<Session> {
    this.beforeSession();
    return this.session1;
  }

  async swap(write: SessionSwap): Promise<SessionWriteReply> {
    this.swaps.push(write);
    return { isDone: true, row: this.row };
  }

  async read(): Promise<StoredDocument> {
    return this.row;
  }

  async publishHolderEntry({ text }: SessionHolderEntry): Promise<void> {
    this.introduced.push(text);
  }

  async close(): Promise<void> {}
}

describe('a register of sessions', () => {
  let answers: Answers;
  let clock: ManualClock;
  let register: SessionRegister;
  let readings: Reading[];
  beforeEach(() => {
    answers = new Answers();
    clock = new ManualClock();
    register = new SessionRegister(answers as unknown as SessionBackend, { clock });
    readings = [];
    register.listen({
      onReading: (_, reading) => readings.push(reading),
      onTime: () => undefined,
      onGap: () => undefined,
    });
  });

  it('does not write what was true under a session that ended while the write waited for the next one', async () => {
    const expected = await register.read('k');
    answers.beforeSession = () => {
      answers.listener?.onSessionEnd(answers.session1);
      answers.session1 = { id: 's2', validUntil: 60_000 };
    };
    const write = { name: 'k', expected, next: FREE, lastToken: expected.lastToken, failOnUnreadNotes: true };
    const swap = register.swap({ ...write, notified: [], mayBeForgotten: true, deadline: () => 0 });
    await expect(swap).rejects.toMatchObject({ reason: 'unready', key: 'k' });
    expect(answers.swaps).toEqual([]);
  });

  it('deletes a free document only if the next one gets a larger token, also after an older state was restored', async () => {
    const mayDelete = async (lastToken: number): Promise<boolean | undefined> => {
      const expected = await register.read('k');
      const write = { name: 'k', expected, next: FREE, lastToken, failOnUnreadNotes: true };
      await register.swap({ ...write, notified: [], mayBeForgotten: true, deadline: () => 0 });
      return answers.swaps.at(-1)?.mayDelete;
    };
    expect(await mayDelete(711)).toBe(false);
    expect(await mayDelete(710)).toBe(true);
    answers.row = { ...answers.row, version: 12, writtenAt: 12, revision: 13 };
    expect(await mayDelete(710)).toBe(false);
    expect(await mayDelete(13)).toBe(true);
  });

  it('gives no message to its listener before it has a session, and none that it cannot read', async () => {
    const message =
      '[1,"k",{"version":7,"writtenAt":7,"notesRead":7,"text":"[1,0,[],[]]","notes":[],"nextTicket":8}]';
    answers.listener?.onMessage(message, 7);
    await register.read('k');
    answers.listener?.onMessage(
      '[1,"k",{"version":7,"writtenAt":7,"notesRead":7,"text":"[2,0,[],[]]","notes":[]}]',
      7,
    );
    expect(readings).toEqual([]);
    answers.listener?.onMessage(message, 7);
    expect(readings).toMatchObject([{ version: 7, order: 7, nextTicket: 8, mayLackNotes: true }]);
  });

  it('ends what its client tells of itself when its lease is over, unless it was told anew or the client has closed', async () => {
    const tell = (text: string, leaseMs: number) =>
      register.publishHolderEntry({ clientId: 'a', text, leaseMs });
    await tell('before', 100);
    await tell('now', 200);
    await clock.advance(199);
    expect(answers.introduced).toEqual(['before', 'now']);
    await clock.advance(1);
    expect(answers.introduced).toEqual(['before', 'now', undefined]);
    await tell('last', 100);
    await register.close(true);
    await clock.advance(100);
    expect(answers.introduced.at(-1)).toBe('last');
  });
});
