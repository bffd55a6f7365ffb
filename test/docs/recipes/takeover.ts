import { Injectable } from '@nestjs/common';
import { Locked, LockSignal } from 'nestjs-distributed-lock';

export abstract class Editor {
  /** Ends early when the signal aborts. */
  abstract run(id: string, signal?: AbortSignal): Promise<'saved' | 'stopped'>;
}

@Injectable()
export class Documents {
  constructor(private readonly editor: Editor) {}

  @Locked('doc:<id>', { onBusy: 'takeover', graceMs: 2000 })
  async edit(id: string, @LockSignal() signal?: AbortSignal): Promise<'saved' | 'stopped'> {
    return this.editor.run(id, signal);
  }
}
