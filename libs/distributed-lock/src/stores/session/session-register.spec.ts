import { beforeEach, describe, expect, it } from '@jest/globals';
import { LOCK } from '../../port/claim.js';
import { ManualClock } from '../../testing/manual-clock.js';
import type { Reading } from '../core/document.js';
import type { NamePage } from '../core/register.js';
import type {
  BackendListener,
  DocumentRow,
  Session,
  SessionBackend,
  SessionIntroduction,
  SessionWriteReply,
  SessionSwap,
  SessionTake,
} from './session-backend.js';
import { SessionRegister } from './session-register.js';
import { documentTextUnder } from './session-text.js';

const FREE = { holders: [], queue: [] };
const request = { key: 'k', owner: 'a:1', claim: LOCK, leaseMs: 9000, waitMs: 0, ticket: 0, tokens: 1 };
const notAfter = () => 0;

/** A back end whose answers the test gives. */
class Answers implements SessionBackend {
  readonly commandTimeoutMs = 100;
  readonly takes: SessionTake[] = [];
  readonly swaps: SessionSwap[] = [];
  listener: BackendListener | undefined;
  row: DocumentRow = rowOf({ version: 700, text: documentTextUnder(FREE, 5, 's1') });
  isDone = true;
  beforeSession = (): void => undefined;
  session1: Session = { id: 's1', validUntil: 30_000 };

  listen(listener: BackendListener): void {
    this.listener = listener;
  }

  session(): Promise<Session> {
    this.beforeSession();
    return Promise.resolve(this.session1);
  }

  async take(write: SessionTake): Promise<SessionWriteReply> {
    this.takes.push(write);
    return { isDone: this.isDone, row: this.row };
  }

  async swap(write: SessionSwap): Promise<SessionWriteReply> {
    this.swaps.push(write);
    return { isDone: this.isDone, row: this.row };
  }

  async read(): Promise<DocumentRow> {
    return this.row;
  }

  async endedAmong(): Promise<readonly string[]> {
    throw new Error('nobody answers');
  }

  async firstSession(): Promise<string | undefined> {
    return undefined;
  }

  async remove(): Promise<void> {}

  tell(): void {}

  readonly introduced: (string | undefined)[] = [];

  async introduce({ text }: SessionIntroduction): Promise<void> {
    this.introduced.push(text);
  }

  async readIntroductions(): Promise<readonly (string | undefined)[]> {
    return this.introduced.slice(-1);
  }

  async list(): Promise<NamePage> {
    return { names: ['k'], after: undefined };
  }

  async close(): Promise<void> {}
}

function rowOf(more: Partial<DocumentRow>): DocumentRow {
  const row = {
    name: 'k',
    version: undefined,
    text: null,
    writtenAt: 0,
    revision: 710,
    notes: [],
    notesRead: 0,
  };
  return { ...row, ...(more.version !== undefined && { writtenAt: more.version }), ...more };
}

describe('a register of sessions', () => {
  let answers: Answers;
  let clock: ManualClock;
  let register: SessionRegister;
  let readings: Reading[];
  beforeEach(() => {
    answers = new Answers();
    clock = new ManualClock();
    register = new SessionRegister(answers, { clock });
    readings = [];
    register.listen({
      onReading: (_, reading) => readings.push(reading),
      onTime: () => undefined,
      onGap: () => undefined,
    });
  });

  const swap = (expected: Reading, lastToken = expected.lastToken) => {
    const notified: readonly string[] = [];
    return register.swap({
      name: 'k',
      expected,
      next: FREE,
      lastToken,
      isExact: true,
      notified,
      mayBeForgotten: true,
      notAfter,
    });
  };
  const take = () => register.take({ name: 'k', request, minToken: 0, notes: [], notAfter });

  it('does not write what was true under a session that ended while the write waited for the next one', async () => {
    const expected = await register.read('k');
    answers.beforeSession = () => {
      answers.listener?.onSessionEnd(answers.session1);
      answers.session1 = { id: 's2', validUntil: 60_000 };
    };
    await expect(swap(expected)).rejects.toMatchObject({ reason: 'unready', key: 'k' });
    expect(answers.swaps).toEqual([]);
  });

  it('takes an emptied document that it has seen, and no other, with larger tokens than it gave out', async () => {
    await take();
    answers.row = rowOf({ version: 720, text: documentTextUnder(FREE, 900, 's1'), revision: 720 });
    await register.read('k');
    await take();
    answers.row = rowOf({ revision: 730 });
    await register.read('k');
    await take();
    const texts = answers.takes.map(({ seen, text }) => [seen?.version, (JSON.parse(text) as number[])[1]]);
    expect(texts).toEqual([
      [undefined, 0],
      [720, 900],
      [undefined, 900],
    ]);
  });

  it('deletes a free document only when tokens that come later are larger without it', async () => {
    const expected = await register.read('k');
    await swap(expected, 710);
    await swap(expected, 711);
    expect(answers.swaps.map(({ mayDelete }) => mayDelete)).toEqual([true, false]);
  });

  it('takes the sessions of others for alive while nobody says otherwise', async () => {
    const held = { owner: 'b:1', claim: LOCK, token: 5, lastToken: 5, until: Infinity, session: 's9' };
    answers.row = rowOf({ version: 700, text: documentTextUnder({ holders: [held], queue: [] }, 5, 's9') });
    const { document } = await register.read('k');
    expect(document.holders).toMatchObject([{ owner: 'b:1', until: Infinity }]);
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
    const tell = (text: string, leaseMs: number) => register.introduce({ clientId: 'a', text, leaseMs });
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
