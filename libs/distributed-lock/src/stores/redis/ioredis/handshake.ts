import type { Redis } from 'ioredis';
import type { Readable } from 'node:stream';
import type { Clock } from '../../../time/clock.js';
import { giveUpAfter } from '../../../time/turns.js';
import { closedUnanswered, strangeReply, type OwnProtocol } from '../../common/connection/first-bytes.js';

const REDIS: OwnProtocol = {
  server: 'Redis',
  // The types of RESP 2 and 3.
  reply: /^[+\-:$*_#,(!=%~>|]/,
  tls: 'the URL of a Redis with TLS starts with rediss:',
};

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
    let problem: string | undefined = closedUnanswered(REDIS);
    const fail = (why: string): void => {
      problem = why;
      stream.destroy();
    };
    const onFirst = (bytes: Buffer): void => {
      problem = undefined;
      if (bytes.toString('latin1').startsWith('-NOAUTH')) fail(NO_PASSWORD);
      const strange = strangeReply(bytes, REDIS);
      if (strange) fail(strange);
    };
    const onClosed = (): void => {
      end();
      // Emitted before ioredis emits its own error, which does not say what answered.
      if (problem) client.emit('error', new Error(problem, { cause: stream.errored ?? undefined }));
    };
    const cancel = afterSilence(stream, { clock, ms: silenceMs }, () =>
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
 * @returns a function that cancels it
 */
export function afterSilence(
  stream: Readable,
  { clock, ms }: { readonly clock: Clock; readonly ms: number },
  task: () => void,
): () => void {
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
