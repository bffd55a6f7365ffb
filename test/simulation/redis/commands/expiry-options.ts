import { wholeNumber } from '../resp/numbers.js';
import { ErrorReply } from '../resp/reply.js';
import { notAnInteger, syntaxError } from './command.js';

const UNITS: ReadonlyMap<string, number> = new Map([
  ['PX', 1],
  ['EX', 1000],
]);

/** The options of SET and GETEX. */
export class ExpiryOptions {
  private readonly flags = new Set<string>();
  private time: { readonly text: string; readonly unit: number } | undefined;

  /**
   * @param allowed the words that the command knows beside EX and PX
   * @throws ErrorReply for words that make no sense
   */
  constructor(
    private readonly command: string,
    words: readonly string[],
    allowed: readonly string[],
  ) {
    for (let i = 0; i < words.length; i++) {
      const word = (words[i] as string).toUpperCase();
      const unit = UNITS.get(word);
      if (unit !== undefined) {
        const text = words[++i];
        if (text === undefined || this.time) throw syntaxError();
        this.time = { text, unit };
      } else if (allowed.includes(word)) this.flags.add(word);
      else throw syntaxError();
    }
    const keeps = this.has('KEEPTTL') || this.has('PERSIST');
    if ((keeps && this.time) || (this.has('NX') && this.has('XX'))) throw syntaxError();
  }

  has(flag: string): boolean {
    return this.flags.has(flag);
  }

  /** When the key expires. @throws ErrorReply for a time that is none */
  expiresAt(now: number): number | undefined {
    if (!this.time) return undefined;
    const length = wholeNumber(this.time.text);
    if (length === undefined) throw notAnInteger();
    if (length <= 0) throw new ErrorReply(`ERR invalid expire time in '${this.command}' command`);
    return now + length * this.time.unit;
  }
}
