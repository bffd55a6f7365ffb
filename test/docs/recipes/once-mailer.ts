import { Injectable } from '@nestjs/common';
import { OnceService } from 'nestjs-distributed-lock/once';

@Injectable()
export class Mailer {
  constructor(private readonly once: OnceService) {}

  welcome(userId: string): Promise<string> {
    return this.once.run(`welcome:${userId}`, { keepForMs: 7 * 86_400_000 }, () => this.send(userId));
  }

  private async send(userId: string): Promise<string> {
    return `sent to ${userId}`;
  }
}
