import { PassThrough } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { ServerProtocol } from './kept-connection.js';

const REDIS = new ServerProtocol({ server: 'Redis', reply: /^[+\-:$*_#,(!=%~>|]/, tls: 'write rediss:' });
const POSTGRES = new ServerProtocol({ server: 'PostgreSQL', reply: /^[NSRE]/, tls: 'set ssl' });
const bytes = (...parts: (string | number[])[]): Buffer =>
  Buffer.concat(parts.map((part) => Buffer.from(part as string)));

describe('what the first bytes tell of the server', () => {
  it.each([
    '+OK\r\n',
    '-NOAUTH …\r\n',
    '%7\r\n$6\r\nserver',
    '*14\r\n',
    ':1\r\n',
    '$-1\r\n',
    '_\r\n',
    '>3\r\n',
  ])('nothing, if they may be of Redis: %j', (reply) =>
    expect(REDIS.strangeReply(bytes(reply))).toBeUndefined(),
  );

  it.each(['N', 'S', 'R\0\0\0\x08\0\0\0\0', 'E\0\0\0\x67SFATAL'])(
    'nothing, if they may be of PostgreSQL: %j',
    (reply) => expect(POSTGRES.strangeReply(bytes(reply))).toBeUndefined(),
  );

  it.each<[string, Buffer, string]>([
    ['MySQL', bytes([74, 0, 0, 0, 10], '8.0.36', [0], 'rest'), 'MySQL or MariaDB (8.0.36)'],
    [
      'MariaDB, whose packet is as long as the sign of a reply of Redis',
      bytes([45, 0, 0, 0, 10], '5.5.5-10.11.6-MariaDB-0+deb12u1', [0]),
      'MySQL or MariaDB (5.5.5-10.11.6-MariaDB-0+deb12u1)',
    ],
    ['MySQL that shuts this host out', bytes([70, 0, 0, 0, 255, 106, 4], 'Host'), 'MySQL or MariaDB'],
    ['HTTP', bytes('HTTP/1.1 400 Bad Request\r\n'), 'an HTTP server'],
    ['HTTP/2', bytes([0, 0, 6, 4, 0, 0, 0, 0, 0, 0]), 'an HTTP/2 server, as etcd'],
    ['TLS', bytes([21, 3, 3, 0, 2, 2, 70]), 'a server that speaks TLS (write rediss:)'],
    ['SSH', bytes('SSH-2.0-OpenSSH_9.2\r\n'), 'an SSH server'],
    ['memcached', bytes('ERROR\r\n'), 'memcached'],
    ['PostgreSQL', bytes('E', [0, 0, 0, 0x8a], 'SFATAL', [0]), 'PostgreSQL'],
    ['PostgreSQL, asked in an old protocol', bytes('EFATAL:  unsupported frontend protocol'), 'PostgreSQL'],
    ['anything else', bytes('220 mail.example.com ESMTP\r\n'), 'another server'],
    ['a greeting that is cut short', bytes([74, 0, 0, 0, 10], '8.0.'), 'MySQL or MariaDB (8.0.)'],
  ])('%s', (_, first, server) =>
    expect(REDIS.strangeReply(first)).toBe(`no Redis answers there, but ${server}`),
  );

  it('Redis, where PostgreSQL is expected', () => {
    const said = POSTGRES.strangeReply(bytes('-ERR unknown command\r\n'));
    expect(said).toBe('no PostgreSQL answers there, but Redis');
  });
});

describe('a connection that is being opened', () => {
  const watched = () => {
    const stream = new PassThrough().on('error', () => undefined);
    const told: string[] = [];
    POSTGRES.watch(stream, ({ message }) => void told.push(message));
    return { stream, told };
  };
  const CLOSED = expect.stringContaining('closed it without an answer; is it PostgreSQL?');

  it('is told of once if another server answers', async () => {
    const { stream, told } = watched();
    stream.emit('connect');
    stream.emit('data', bytes('HTTP/1.1 400 Bad Request\r\n'));
    stream.emit('data', bytes('HTTP/1.1 400 Bad Request\r\n'));
    stream.emit('close');
    expect(told).toEqual(['no PostgreSQL answers there, but an HTTP server']);
  });

  it.each([
    ['end', undefined],
    ['error', new Error('read ECONNRESET')],
    ['close', undefined],
  ])('is told of once if it ends without an answer: %s', (event, error) => {
    const { stream, told } = watched();
    stream.emit('connect');
    stream.emit(event, error);
    stream.emit('close');
    expect(told).toEqual([CLOSED]);
  });

  it('is left to its client if it cannot be made, and once its server has answered', () => {
    const { stream, told } = watched();
    stream.emit('error', new Error('connect ECONNREFUSED'));
    const other = watched();
    other.stream.emit('connect');
    other.stream.emit('data', bytes('N'));
    other.stream.emit('close');
    expect([told, other.told]).toEqual([[], []]);
    expect(other.stream.listenerCount('data')).toBe(0);
  });
});
