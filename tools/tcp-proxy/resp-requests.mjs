/** Reads the commands that a Redis client writes: arrays of strings. */
export class RespRequests {
  #unread = Buffer.alloc(0);

  /** @returns the commands that are complete now, each with its arguments */
  read(chunk) {
    this.#unread = Buffer.concat([this.#unread, chunk]);
    const commands = [];
    for (let next = parse(this.#unread); next; next = parse(this.#unread)) {
      commands.push(next.command);
      this.#unread = this.#unread.subarray(next.length);
    }
    return commands;
  }
}

function parse(bytes) {
  let at = 0;
  const number = (sign) => {
    const end = bytes.indexOf('\r\n', at);
    if (end === -1) return undefined;
    const text = bytes.toString('latin1', at, end);
    if (text[0] !== sign) throw new Error(`This is no command: ${text}`);
    at = end + 2;
    return Number(text.slice(1));
  };
  const count = number('*');
  if (count === undefined) return undefined;
  const command = [];
  for (let i = 0; i < count; i++) {
    const length = number('$');
    if (length === undefined || bytes.length < at + length + 2) return undefined;
    command.push(bytes.toString('utf8', at, at + length));
    at += length + 2;
  }
  return { command, length: at };
}
