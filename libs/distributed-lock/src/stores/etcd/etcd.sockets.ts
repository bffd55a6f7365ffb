import type { Socket } from 'node:net';
import type { ChannelCredentials } from '@grpc/grpc-js';

/**
 * The sockets that a client of gRPC opens with these credentials, which must be its own.
 *
 * A client that closes forgets the connection that it is making. While the server takes connections and is silent, as a process
 * that is stopped, each attempt would leave a socket behind.
 */
export function socketsOf(credentials: ChannelCredentials): ReadonlySet<Socket> {
  const sockets = new Set<Socket>();
  const create = credentials._createSecureConnector.bind(credentials);
  credentials._createSecureConnector = (...args) => {
    const connector = create(...args);
    const connect = connector.connect.bind(connector);
    connector.connect = (socket) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      return connect(socket);
    };
    return connector;
  };
  return sockets;
}
