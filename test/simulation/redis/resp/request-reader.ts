/** Cuts what a client has written into commands: RESP arrays of bulk strings. */
export class RequestReader {
  private unread = '';

  /** @param bytes a byte string @returns the words of each command that is complete */
  read(bytes: string): string[][] {
    this.unread += bytes;
    const commands: string[][] = [];
    for (let words = this.next(); words; words = this.next()) commands.push(words);
    return commands;
  }

  private next(): string[] | undefined {
    const text = this.unread;
    let at = 0;
    const header = (mark: string): number | undefined => {
      const end = text.indexOf('\r\n', at);
      if (end < 0) return undefined;
      if (text[at] !== mark) throw new Error(`Protocol error: expected '${mark}', got '${text[at]}'`);
      const count = Number(text.slice(at + 1, end));
      at = end + 2;
      return count;
    };
    if (text === '') return undefined;
    const count = header('*');
    if (count === undefined) return undefined;
    const words: string[] = [];
    while (words.length < count) {
      const length = at < text.length ? header('$') : undefined;
      if (length === undefined || text.length < at + length + 2) return undefined;
      words.push(text.slice(at, at + length));
      at += length + 2;
    }
    this.unread = text.slice(at);
    return words;
  }
}
