import { Query, Resolver, Subscription } from '@nestjs/graphql';
import { LockService } from 'nestjs-distributed-lock';

@Resolver()
export class EditorResolver {
  constructor(private readonly locks: LockService) {}

  @Query(() => Boolean)
  async isEdited(): Promise<boolean> {
    return (await this.locks.inspect('editor')) !== null;
  }

  @Subscription(() => Number)
  async *editing(): AsyncGenerator<{ readonly editing: number }> {
    const lock = await this.locks.acquire('editor', { waitMs: 0 });
    try {
      const stop = AbortSignal.any([lock.signal, lock.shutdownSignal]);
      for (let editing = 0; !stop.aborted; editing++) {
        yield { editing };
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    } finally {
      await lock.release();
    }
  }
}
