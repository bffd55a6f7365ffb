import { Duplex } from 'node:stream';
import type { Line, LineEvents } from './line.js';

/** What ioredis uses of `net.Socket`, on a simulated connection. */
export class SimulatedSocket extends Duplex implements LineEvents {
  connecting = true;
  private onOpen: ((error: Error | null) => void) | undefined;
  private idleTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly line: Line) {
    // As a net.Socket: an end from the other side ends this one, too.
    super({ allowHalfOpen: false, emitClose: true, autoDestroy: true });
    line.open(this);
  }

  onConnect(): void {
    if (this.destroyed) return;
    this.connecting = false;
    this.onOpen?.(null);
    this.onOpen = undefined;
    this.emit('connect');
  }

  onData(bytes: string): void {
    if (!this.destroyed) this.push(Buffer.from(bytes, 'latin1'));
  }

  onEnd(): void {
    if (!this.destroyed) this.push(null);
  }

  onError(error: Error): void {
    this.destroy(error);
  }

  /** ioredis uses it to bound how long it takes to connect. */
  setTimeout(ms: number, onTimeout?: () => void): this {
    clearTimeout(this.idleTimer);
    this.idleTimer = undefined;
    if (ms > 0) {
      this.idleTimer = setTimeout(() => {
        onTimeout?.();
        this.emit('timeout');
      }, ms);
    }
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.whenOpen(done, () => this.line.write(chunk.toString('latin1')));
  }

  /** What was written while the stream was corked leaves in one piece. */
  override _writev(
    chunks: readonly { readonly chunk: Buffer }[],
    done: (error?: Error | null) => void,
  ): void {
    const bytes = Buffer.concat(chunks.map(({ chunk }) => chunk)).toString('latin1');
    this.whenOpen(done, () => this.line.write(bytes));
  }

  override _final(done: (error?: Error | null) => void): void {
    this.whenOpen(done, () => this.line.end());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.idleTimer);
    this.connecting = false;
    this.onOpen = undefined;
    this.line.destroy();
    done(error);
  }

  private whenOpen(done: (error?: Error | null) => void, run: () => void): void {
    if (!this.connecting) {
      run();
      return done();
    }
    this.onOpen = (error) => {
      if (!error) run();
      done(error);
    };
  }
}
