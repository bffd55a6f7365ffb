import type { Redis } from 'ioredis';
import type { Readable } from 'node:stream';
import type { Clock } from '../../../time/clock.js';
import { giveUpAfter } from '../../../time/turns.js';

const CLOSED =
  'the server took the connection and closed it without an answer; is it a Redis, and one without TLS?';

const NO_PASSWORD = 'Redis asks for a password: give it in the URL, as redis://:password@host';

/**
 * Ends a connection that the server has taken and does not answer, since ioredis waits without an end between `connect` and
 * `ready`. Says what answers, if that is no Redis.
 *
 * @param silenceMs how long the server may send nothing
 */
export function watchHandshake(client: Redis, clock: Clock, silenceMs: number): void {
  client.on('connect', () => {
    const { stream } = client;
    let problem: string | undefined = CLOSED;
    const fail = (why: string): void => {
      problem = why;
      stream.destroy();
    };
    const onFirst = (bytes: Buffer): void => {
      problem = undefined;
      if (bytes.toString('latin1').startsWith('-NOAUTH')) fail(NO_PASSWORD);
      const other = whatAnswers(bytes);
      if (other) fail(`no Redis answers there, but ${other}`);
    };
    const onClosed = (): void => {
      end();
      // Emitted before ioredis emits its own error, which does not say what answered.
      if (problem) client.emit('error', new Error(problem, { cause: stream.errored ?? undefined }));
    };
    const cancel = afterSilence(clock, stream, silenceMs, () =>
      fail(`the server took the connection and sent nothing for ${silenceMs} ms`),
    );
    const end = (): void => {
      cancel();
      stream.removeListener('data', onFirst);
      client.removeListener('ready', end);
      client.removeListener('close', onClosed);
    };
    stream.once('data', onFirst);
    client.on('ready', end);
    client.on('close', onClosed);
  });
}

/**
 * Runs `task` once `stream` has brought nothing for `ms`. Several round trips may follow each other meanwhile, and each of
 * them may take that long.
 *
 * @returns cancels it
 */
export function afterSilence(clock: Clock, stream: Readable, ms: number, task: () => void): () => void {
  let cancel = (): void => undefined;
  const end = (): void => {
    cancel();
    stream.removeListener('data', wait);
  };
  function wait(): void {
    cancel();
    cancel = giveUpAfter(clock, ms, () => {
      end();
      task();
    });
  }
  wait();
  stream.on('data', wait);
  return end;
}

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
