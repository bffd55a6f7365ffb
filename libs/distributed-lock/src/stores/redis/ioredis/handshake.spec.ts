import { describe, expect, it } from '@jest/globals';
import { whatAnswers } from './handshake.js';

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
  ])('nothing, if they may be of Redis: %j', (reply) => expect(whatAnswers(bytes(reply))).toBeUndefined());

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
    [
      'TLS',
      bytes([21, 3, 3, 0, 2, 2, 70]),
      'a server that speaks TLS (the URL of a Redis with TLS starts with rediss:)',
    ],
    ['SSH', bytes('SSH-2.0-OpenSSH_9.2\r\n'), 'an SSH server'],
    ['anything else', bytes('220 mail.example.com ESMTP\r\n'), 'another server'],
    ['a greeting that is cut short', bytes([74, 0, 0, 0, 10], '8.0.'), 'MySQL or MariaDB (8.0.)'],
  ])('%s', (_, first, server) => expect(whatAnswers(first)).toBe(server));
});
