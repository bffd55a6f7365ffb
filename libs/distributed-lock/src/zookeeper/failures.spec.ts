import { describe, expect, it } from '@jest/globals';
import type { SessionSwap } from '../session/backend.js';
import { JuteWriter } from './client/jute.js';
import { type Request, setData } from './client/requests.js';
import type { ZookeeperSession } from './client/session.js';
import { Documents } from './documents.js';
import { conditionOf, versionAfter, zookeeperError } from './failures.js';
import { LockPaths } from './lock-path.js';

const LEAST = -(2 ** 31);
const LARGEST = 2 ** 31 - 1;
/** That of a row whose znode has the version. */
const rowVersion = (version: number) => version + 1;

describe('the version of a document in ZooKeeper', () => {
  it('is one more after a write, and goes on with the least number of 32 bits after the largest', () => {
    expect(versionAfter(undefined)).toBe(rowVersion(0));
    expect(versionAfter(rowVersion(0))).toBe(rowVersion(1));
    expect(versionAfter(rowVersion(LARGEST - 1))).toBe(rowVersion(LARGEST));
    expect(versionAfter(rowVersion(LARGEST))).toBe(rowVersion(LEAST));
    expect(versionAfter(rowVersion(LEAST))).toBe(rowVersion(LEAST + 1));
  });

  it('is what a write depends on, and a write that would depend on none is refused in plain words', () => {
    for (const version of [0, 1, LARGEST, LEAST, -3]) {
      expect(conditionOf('/k', rowVersion(version))).toBe(version);
    }
    for (const version of [-2, -1]) {
      expect(() => conditionOf('/k', rowVersion(version))).toThrow(
        /znode \/k are used up after 4294967294 writes. Use another key, or/,
      );
    }
  });

  it('is that of the next swap when it has become negative, and no swap is sent after the last', async () => {
    const sent: Buffer[] = [];
    const session = {
      id: '0a',
      send(request: Request<unknown>) {
        const writer = new JuteWriter();
        request.write(writer);
        sent.push(writer.frame());
        return Promise.resolve({ zxid: 7, content: { isDone: true } });
      },
    } as unknown as ZookeeperSession;
    const paths = new LockPaths('/nest-lock');
    const documents = new Documents({ session, paths, acl: 'open' });
    const swap = (version: number): SessionSwap => ({
      name: 'k',
      version,
      text: 'text',
      mayDelete: false,
      session: { id: '0a', validUntil: Infinity },
      failOnUnreadNotes: true,
      notesRead: 1,
      nextTicket: 1,
      mergedNotes: [],
      messages: { name: 'k', clients: [], text: () => '' },
    });
    const setting = (version: number) => {
      const writer = new JuteWriter();
      setData(paths.documentOf('k'), 'text', version).write(writer);
      return writer.frame().subarray(4);
    };
    const first = await documents.swap(swap(rowVersion(LARGEST)));
    expect(first.row.version).toBe(rowVersion(LEAST));
    const second = await documents.swap(swap(first.row.version as number));
    expect(second.row.version).toBe(rowVersion(LEAST + 1));
    expect(sent.map((frame, i) => frame.includes(setting([LARGEST, LEAST][i] as number)))).toEqual([
      true,
      true,
    ]);
    for (const last of [-2, -1]) {
      const error: unknown = await documents
        .swap(swap(rowVersion(last)))
        .catch((failure: unknown) => failure);
      expect(zookeeperError(error, 'k')).toMatchObject({ reason: 'refused', key: 'k' });
    }
    expect(sent).toHaveLength(2);
  });
});
