import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { Inject, Injectable, StreamableFile } from '@nestjs/common';
import { LockService, Locked } from 'nestjs-distributed-lock';
import { fresh, type FreshApp } from '../traps/fresh.js';

/** Gives the same rows as streams of each kind, under one lock. */
@Injectable()
export class Rows {
  readonly log: string[] = [];

  constructor(@Inject(LockService) private readonly locks: LockService) {}

  /** What each step of a stream has: its lock, also for nested calls. */
  private async step(n: number): Promise<string> {
    const nested = await this.locks.withLock('rows', { waitMs: 0 }, (lock) => lock.key);
    await pause(1);
    return `${n} ${this.locks.current('rows')?.key} ${nested}`;
  }

  private async *make(count = 3): AsyncGenerator<string, string> {
    try {
      for (let n = 1; n <= count; n++) yield await this.step(n);
      return 'all';
    } finally {
      this.log.push(`closed ${(await this.step(0)) === '0 rows rows' ? 'under the lock' : 'without it'}`);
    }
  }

  @Locked('rows')
  async *generator(count = 3): AsyncGenerator<string, string> {
    return yield* this.make(count);
  }

  /** Gives up soon: only for calls that find the lock held until they have given up. */
  @Locked('rows', { waitMs: 50 })
  async *impatient(): AsyncGenerator<string, string> {
    return yield* this.make();
  }

  @Locked('rows')
  async promised(): Promise<AsyncGenerator<string, string>> {
    return this.make();
  }

  @Locked('rows')
  async web(): Promise<ReadableStream<string>> {
    const source = this.make();
    const pull = async (controller: ReadableStreamDefaultController<string>): Promise<void> => {
      const { done, value } = await source.next();
      if (done) controller.close();
      else controller.enqueue(value);
    };
    return new ReadableStream(
      { pull, cancel: async () => void (await source.return('')) },
      { highWaterMark: 0 },
    );
  }

  @Locked('rows')
  async response(): Promise<Response> {
    const body = (await this.web()).pipeThrough(new TextEncoderStream());
    return new Response(body, { status: 202, headers: { 'x-rows': 'yes' } });
  }

  @Locked('rows')
  async readable(): Promise<Readable> {
    return Readable.from(this.make());
  }

  @Locked('rows')
  async file(): Promise<StreamableFile> {
    return new StreamableFile(Readable.from(this.make()));
  }
}

export type Kind = 'generator' | 'promised' | 'web' | 'response' | 'readable' | 'file';

/** Reads a stream of any kind as its callers do. */
export async function open(rows: Rows, kind: Kind): Promise<AsyncIterator<unknown>> {
  switch (kind) {
    case 'generator':
      return rows.generator();
    case 'response':
      return (await rows.response()).body![Symbol.asyncIterator]();
    case 'file':
      return (await rows.file()).getStream()[Symbol.asyncIterator]();
    default:
      return (await rows[kind]())[Symbol.asyncIterator]();
  }
}

export const KINDS: readonly Kind[] = ['generator', 'promised', 'web', 'response', 'readable', 'file'];

/** An application of its own. */
export const start = async (): Promise<FreshApp & { readonly rows: Rows }> => {
  const started = await fresh({ providers: [Rows] });
  return { ...started, rows: started.app.get(Rows) };
};
