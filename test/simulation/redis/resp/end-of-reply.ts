/** Where the reply that begins at `at` ends, or `undefined` if it is not there in full. */
export function endOfReply(bytes: string, at = 0): number | undefined {
  const line = bytes.indexOf('\r\n', at);
  if (line < 0) return undefined;
  const count = Number(bytes.slice(at + 1, line));
  const after = line + 2;
  switch (bytes[at]) {
    case '$':
      if (count < 0) return after;
      return bytes.length >= after + count + 2 ? after + count + 2 : undefined;
    case '*':
    case '>':
      return endOfReplies(bytes, after, count);
    case '%':
      return endOfReplies(bytes, after, 2 * count);
    default:
      return after;
  }
}

function endOfReplies(bytes: string, start: number, count: number): number | undefined {
  let at: number | undefined = start;
  for (let i = 0; i < count && at !== undefined; i++) at = endOfReply(bytes, at);
  return at;
}
