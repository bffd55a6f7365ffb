import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { request } from '../resp/request.js';
import { endOfReply } from '../resp/end-of-reply.js';

/** A connection to a real server, on the level of bytes. */
export class RealClient {
  private unread = '';
  private onData: () => void = () => undefined;

  private constructor(private readonly socket: Socket) {
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      this.unread += chunk;
      this.onData();
    });
    socket.on('error', () => socket.destroy());
    socket.setNoDelay(true);
  }

  static async to(port: number): Promise<RealClient> {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    return new RealClient(socket);
  }

  async send(words: readonly string[]): Promise<string> {
    this.write(words);
    return this.read(1);
  }

  write(words: readonly string[]): void {
    this.socket.write(request(words), 'latin1');
  }

  /** Waits until the server has written so many more replies. @returns all that it has written */
  async read(replies: number): Promise<string> {
    for (;;) {
      let end: number | undefined = 0;
      for (let i = 0; i < replies && end !== undefined; i++) end = endOfReply(this.unread, end);
      if (end !== undefined) {
        const read = this.unread;
        this.unread = '';
        return read;
      }
      await new Promise<void>((resolve) => (this.onData = resolve));
    }
  }

  /** Resolves when the server has forgotten this client. */
  async quit(): Promise<void> {
    this.write(['QUIT']);
    if (!this.socket.closed) await once(this.socket, 'close');
  }

  close(): void {
    this.socket.destroy();
  }
}
