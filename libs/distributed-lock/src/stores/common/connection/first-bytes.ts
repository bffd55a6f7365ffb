import type { Readable } from 'node:stream';

/** The protocol of a store, to tell its server from others by what they send first. */
export interface OwnProtocol {
  /** The name of the server for messages: `PostgreSQL`. */
  readonly server: string;
  /** How a reply of the server begins, as latin1. */
  readonly reply: RegExp;
  /** How the target is written for a server with TLS. */
  readonly tls: string;
}

/** How servers begin to speak, as latin1. A group is the version of the server. */
const STARTS: readonly (readonly [server: string, start: RegExp])[] = [
  // The length of a packet in three bytes, its number, and the version of the protocol, or an error.
  ['MySQL', /^..\0\0(?:\n([^\0]*)|\xff)/s],
  ['HTTP', /^HTTP\//],
  // The first frame has the settings (4): three bytes of length, and its type.
  // oxlint-disable-next-line no-control-regex -- bytes
  ['HTTP/2', /^\0\0.\x04/s],
  // An alert (21) or a handshake (22), of TLS 1.
  // oxlint-disable-next-line no-control-regex -- bytes
  ['TLS', /^[\x15\x16]\x03/],
  ['SSH', /^SSH-/],
  ['memcached', /^ERROR\r\n/],
  ['Redis', /^[-+][A-Z]{2}/],
  // An error, in version 3 or 2 of the protocol.
  ['PostgreSQL', /^E.{0,5}S?FATAL/s],
];

const NAMES: Readonly<Record<string, string>> = {
  MySQL: 'MySQL or MariaDB',
  HTTP: 'an HTTP server',
  'HTTP/2': 'an HTTP/2 server, as etcd',
  TLS: 'a server that speaks TLS',
  SSH: 'an SSH server',
};

/**
 * @returns what is wrong with the first bytes of a connection, for messages; `undefined` if a server of `own` may have sent
 * them
 */
export function strangeReply(first: Buffer, own: OwnProtocol): string | undefined {
  const text = first.toString('latin1');
  const [other, start] = STARTS.find(([, start]) => start.test(text)) ?? [];
  if (other === own.server || (!other && own.reply.test(text))) return undefined;
  const version = start?.exec(text)?.[1]?.replace(/[^\w.:+~-]/g, '');
  const name = other === undefined ? 'another server' : (NAMES[other] ?? other);
  const detail = other === 'TLS' ? own.tls : version;
  return `no ${own.server} answers there, but ${name}${detail === undefined ? '' : ` (${detail})`}`;
}

/** @returns the message about a server that has closed a connection before it sent anything */
export function closedUnanswered({ server, tls }: Omit<OwnProtocol, 'reply'>): string {
  return `the server took the connection and closed it without an answer; is it ${server}? With TLS: ${tls}`;
}

/**
 * Watches a connection that is being opened. Calls `onStrange` at most once, before the listeners of the client library run: for
 * first bytes of another server, or if the connection is closed before any have come.
 */
export function watchFirstBytes(stream: Readable, own: OwnProtocol, onStrange: (error: Error) => void): void {
  let isConnected = false;
  const end = (): void => {
    stream.removeListener('data', onData);
    for (const event of ['error', 'end', 'close']) stream.removeListener(event, onClosed);
  };
  const onData = (first: Buffer): void => {
    end();
    const strange = strangeReply(first, own);
    if (strange !== undefined) onStrange(new Error(strange));
  };
  const onClosed = (cause?: unknown): void => {
    end();
    if (isConnected) onStrange(new Error(closedUnanswered(own), { cause }));
  };
  stream.once('connect', () => (isConnected = true));
  stream.prependListener('data', onData);
  for (const event of ['error', 'end', 'close']) stream.prependListener(event, onClosed);
}
