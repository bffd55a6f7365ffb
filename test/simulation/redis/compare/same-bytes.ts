/** A duration in ms, whose last digits differ with the moment at which it was asked for. */
const DURATION = /^:(\d{1,8})$/;
/** Counts are smaller. */
const MIN_MS = 50;
const TOLERANCE_MS = 500;

/** Compares what two servers wrote, line by line. @returns the first difference */
export function difference(model: string, real: string): string | undefined {
  return differenceOf(linesOf(model), linesOf(real));
}

/** Compares replies whose order depends on the server. @returns the first difference */
export function differenceInAnyOrder(model: string, real: string): string | undefined {
  return differenceOf(linesOf(model).toSorted(), linesOf(real).toSorted());
}

function differenceOf(ours: readonly string[], theirs: readonly string[]): string | undefined {
  for (let i = 0; i < Math.max(ours.length, theirs.length); i++) {
    if (!isSame(ours[i], theirs[i])) return `the model wrote ${ours[i]}, the server ${theirs[i]}`;
  }
  return undefined;
}

/** What Lua says of a wrong script, each version in other words. The line is compared. */
const LUA_ERROR = /(?<=^-ERR .*user_script:\d+:) .*?(?= script: |$)/;

/** The number of a connection is its server's own. */
function linesOf(bytes: string): readonly string[] {
  return bytes
    .replaceAll(/(?<=\$2\r\nid\r\n):\d+/g, ':id')
    .split('\r\n')
    .map(normalised);
}

function isSame(ours: string | undefined, theirs: string | undefined): boolean {
  if (ours === theirs) return true;
  const [a, b] = [DURATION.exec(ours ?? ''), DURATION.exec(theirs ?? '')];
  if (!a || !b) return false;
  const [x, y] = [Number(a[1]), Number(b[1])];
  return Math.max(x, y) >= MIN_MS && Math.abs(x - y) <= TOLERANCE_MS;
}

/** Without what depends on the version of Lua. In Lua the order of an object's fields is that of a hash table. */
function normalised(line: string): string {
  if (!line.startsWith('{"')) return line.replace(LUA_ERROR, '');
  const fields = Object.entries(JSON.parse(line) as object);
  return JSON.stringify(fields.sort(([a], [b]) => (a < b ? -1 : 1)));
}
