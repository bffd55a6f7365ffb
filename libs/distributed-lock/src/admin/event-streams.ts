import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import type { LockService } from '../lock/lock.service.js';
import { EventStream } from './event-stream.js';
import { rawOf, type AdminReply, type AdminRequest } from './request.js';

/** The open streams of events. They end with the application, which would wait for its open connections. */
@Injectable()
export class EventStreams implements OnModuleDestroy {
  private readonly open = new Set<EventStream>();
  private isClosing = false;

  add({ method }: AdminRequest, reply: AdminReply, locks: LockService): void {
    const response = rawOf(reply);
    const isOver = method === 'HEAD' || this.isClosing;
    response.writeHead(this.isClosing ? 503 : 200, {
      'Content-Type': 'text/event-stream; charset=utf-8',
      // A proxy that compresses or buffers would keep events back.
      'Cache-Control': 'no-store, no-transform',
      'X-Accel-Buffering': 'no',
      'X-Content-Type-Options': 'nosniff',
      // A kept-alive connection of a stream that has ended would keep the server of a closing application open.
      ...(response.req.httpVersionMajor === 1 && { Connection: 'close' }),
      ...(this.isClosing && { 'Retry-After': '1' }),
    });
    if (isOver) {
      response.end();
      return;
    }
    const stream = new EventStream(response, locks, () => this.open.delete(stream));
    this.open.add(stream);
    stream.start();
  }

  onModuleDestroy(): void {
    this.isClosing = true;
    for (const stream of this.open) stream.end();
  }
}
