/** How a reply of Redis may start: the types of RESP 2 and 3. */
const RESP = '+-:$*_#,(!=%~>|';
const TLS_RECORDS = [21, 22];
const HTTP2_SETTINGS = 4;
const MYSQL_GREETING = 10;
const MYSQL_ERROR = 255;

const STARTS: readonly (readonly [start: string, server: string])[] = [
  ['HTTP/', 'an HTTP server'],
  ['SSH-', 'an SSH server'],
  ['ERROR\r\n', 'a server that does not know the commands of Redis, as memcached'],
];

/** What the first bytes tell of a server that is no Redis; `undefined` where they may be a reply of Redis. */
export function whatAnswers(first: Buffer): string | undefined {
  const [, second, third, fourth, fifth] = first;
  // The length of a packet in three bytes, and its number.
  if (third === 0 && fourth === 0 && fifth === MYSQL_GREETING) {
    const [version = ''] = first.toString('latin1', 5).split('\0', 1);
    return `MySQL or MariaDB (${version.replace(/[^\w.:+~-]/g, '')})`;
  }
  if (third === 0 && fourth === 0 && fifth === MYSQL_ERROR) return 'MySQL or MariaDB';
  const text = first.toString('latin1');
  if (RESP.includes(text.charAt(0))) return undefined;
  if (TLS_RECORDS.includes(first[0] ?? 0) && second === 3)
    return 'a server that speaks TLS (the URL of a Redis with TLS starts with rediss:)';
  if (first[0] === 0 && second === 0 && fourth === HTTP2_SETTINGS) return 'an HTTP/2 server, as etcd';
  return STARTS.find(([start]) => text.startsWith(start))?.[1] ?? 'another server';
}
