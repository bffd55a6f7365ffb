import { Injectable } from '@nestjs/common';
import { CurrentLock, LockSignal, Locked, type Lock } from 'nestjs-distributed-lock';

export abstract class Mail {
  abstract send(invoice: string): Promise<void>;
}

@Injectable()
export class Invoices {
  constructor(private readonly mail: Mail) {}

  @Locked('invoice:<url>')
  async send(url: string, @LockSignal() signal?: AbortSignal, @CurrentLock() lock?: Lock): Promise<void> {
    const answer = await fetch(url, { signal }); // rejects at once when the lock is lost
    const invoice = await answer.text();
    lock?.assertHeld(); // before what cannot be undone: throws LockLostError
    await this.mail.send(invoice);
  }

  @Locked('preview:<url>', { onLost: 'ignore' })
  async preview(url: string): Promise<string> {
    return (await fetch(url)).text(); // a result that nobody else can spoil
  }
}
