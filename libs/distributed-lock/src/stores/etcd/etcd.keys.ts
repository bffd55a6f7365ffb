import { checkNameBytes } from '../common/name-bytes.js';

/** etcd keeps all keys in memory, and a request of a lock sends its name several times. */
export const MAX_NAME_BYTES = 4096;
const NUL = Buffer.of(0);
/** Larger than each byte of an id, and of a name. */
const LAST = Buffer.of(0xff);

/**
 * The keys of one root:
 *
 * - `l/<name>`: the document of a lock
 * - `q/<name>\0<id>`: the notes of one request, under the lease of its client
 * - `s/<session>`: the presence of a session, a key that exists as long as the session; its value is the epoch of the session
 * - `m/<client>`: the last messages to a client, under the lease of the client
 * - `i/<client>`: what a client tells people of itself, under its lease
 */
export class EtcdKeys {
  constructor(private readonly root: string) {}

  document(name: string): Buffer {
    return Buffer.from(`${this.root}l/${name}`);
  }

  /** Documents whose names begin with the prefix: all, or those behind the key of one. */
  documents(prefix: string, behind?: Buffer): KeyRange {
    const { key, rangeEnd } = this.below(`l/${prefix}`);
    const next = behind ? Buffer.concat([behind, NUL]) : key;
    return { key: next.compare(key) > 0 ? next : key, rangeEnd };
  }

  /** The bytes of the name, which need not be a text if somebody else has written the key. */
  cursorOf(key: Buffer): string {
    return key.toString('base64url', Buffer.byteLength(`${this.root}l/`));
  }

  keyAt(cursor: string): Buffer {
    return Buffer.concat([this.document(''), Buffer.from(cursor, 'base64url')]);
  }

  /** @param key the key of a document */
  nameOf(key: Buffer): string {
    return key.toString('utf8', Buffer.byteLength(`${this.root}l/`));
  }

  note(name: string, id: string): Buffer {
    return Buffer.concat([this.notePrefix(name), Buffer.from(id)]);
  }

  notes(name: string): KeyRange {
    const key = this.notePrefix(name);
    return { key, rangeEnd: Buffer.concat([key, LAST]) };
  }

  noteId(name: string, key: Buffer): string {
    return key.toString('latin1', this.notePrefix(name).length);
  }

  sessions(): KeyRange {
    return this.below('s/');
  }

  /** @param key the key of a session */
  sessionId(key: Buffer): string {
    return key.toString('utf8', Buffer.byteLength(`${this.root}s/`));
  }

  session(id: string): Buffer {
    return Buffer.from(`${this.root}s/${id}`);
  }

  mailbox(client: string): Buffer {
    return Buffer.from(`${this.root}m/${client}`);
  }

  introduction(client: string): Buffer {
    return Buffer.from(`${this.root}i/${client}`);
  }

  private below(prefix: string): KeyRange {
    const key = Buffer.from(this.root + prefix);
    return { key, rangeEnd: Buffer.concat([key, LAST]) };
  }

  /** A NUL ends the name. One in the name gets a byte behind it that no id begins with. */
  private notePrefix(name: string): Buffer {
    if (!name.includes('\0')) return Buffer.from(`${this.root}q/${name}\0`);
    const escaped = name.split('\0').flatMap((part, i) => {
      const bytes = Buffer.from(part);
      return i === 0 ? [bytes] : [NUL, LAST, bytes];
    });
    return Buffer.concat([Buffer.from(`${this.root}q/`), ...escaped, NUL]);
  }
}

/** Keys from `key` on, below `rangeEnd`. */
export interface KeyRange {
  readonly key: Buffer;
  readonly rangeEnd: Buffer;
}

/** @param name `keyPrefix` and the key @throws LockKeyError for a name that cannot be a part of a key */
export function checkName(name: string): void {
  checkNameBytes(name, MAX_NAME_BYTES, `etcdStore takes at most ${MAX_NAME_BYTES}`);
}
