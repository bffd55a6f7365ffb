import { type CustomTransportStrategy, Server } from '@nestjs/microservices';
import { isObservable, lastValueFrom } from 'rxjs';

/** A transport inside this process. */
export class Wire extends Server implements CustomTransportStrategy {
  listen(done: () => void): void {
    done();
  }

  close(): void {}
  on(): void {}
  unwrap<T>(): T {
    return undefined as T;
  }

  async ask(pattern: string, data: unknown): Promise<unknown> {
    const answer: unknown = await this.getHandlerByPattern(pattern)?.(data, {});
    return isObservable(answer) ? lastValueFrom(answer) : answer;
  }
}
