import { checkNameBytes } from '../common/name-bytes.js';

/** The longest name, in bytes before it is encoded. */
export const MAX_BYTES = 2000;
/** Characters that a znode's name must not have or that have a meaning in a path, and the one that encodes. */
const ENCODED = /[%/.\p{Cc}\p{Co}\u{fff0}-\u{10ffff}]/gu;
/** The server adds ten digits to the name of a note. */
const NOTE = /^(.*)!(-?\d{10,})$/s;

/** Where the znodes of the locks are. */
export class LockPaths {
  /** @param base from the root of the servers on, without a slash at its end */
  constructor(readonly base: string) {}

  /** All that must exist, parents first. */
  get parents(): readonly string[] {
    const parts = this.base.split('/').slice(1);
    const above = parts.map((_, i) => `/${parts.slice(0, i + 1).join('/')}`);
    return [...above, this.documents, `${this.base}/q`, this.presences, `${this.base}/m`, `${this.base}/i`];
  }

  get documents(): string {
    return `${this.base}/l`;
  }

  documentOf(name: string): string {
    return `${this.documents}/${encodeName(name)}`;
  }

  /** The parent of the notes of a name. */
  queueOf(name: string): string {
    return `${this.base}/q/${encodeName(name)}`;
  }

  /** The parent of all presences, which exist as long as their sessions. */
  get presences(): string {
    return `${this.base}/s`;
  }

  presenceOf(session: string): string {
    return `${this.presences}/${encodeName(session)}`;
  }

  mailboxOf(client: string): string {
    return `${this.base}/m/${encodeName(client)}`;
  }

  introductionOf(client: string): string {
    return `${this.base}/i/${encodeName(client)}`;
  }
}

/** @param name `keyPrefix` and the key @throws LockKeyError for a name that no znode can have */
export function checkZnodeName(name: string): void {
  checkNameBytes(name, MAX_BYTES, `at most ${MAX_BYTES} make the name of a znode`);
}

/** The name of a znode for any text; different texts have different names. */
export function encodeName(text: string): string {
  return text.replace(ENCODED, (character) =>
    Buffer.from(character).reduce((all, byte) => `${all}%${byte.toString(16).padStart(2, '0')}`, ''),
  );
}

/** @returns `undefined` for a name that `encodeName` does not make */
export function decodeName(name: string): string | undefined {
  try {
    return decodeURIComponent(name);
  } catch {
    return undefined;
  }
}

/** The name of a note before the server adds its number. */
export function noteName(text: string): string {
  return `${encodeName(text)}!`;
}

/** @returns `undefined` for a znode that is no note */
export function noteNamed(name: string): { readonly text: string; readonly number: number } | undefined {
  const [, encoded, digits] = NOTE.exec(name) ?? [];
  const text = encoded === undefined ? undefined : decodeName(encoded);
  return text === undefined ? undefined : { text, number: Number(digits) };
}
