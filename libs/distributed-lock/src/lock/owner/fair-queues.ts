import { FairQueue, type Standing } from './fair-queue.js';

/** The fair queues of one service, each while somebody stands in it. */
export class FairQueues<T extends Standing> {
  private readonly byName = new Map<string, FairQueue<T>>();

  enter(name: string, owner: T): FairQueue<T> {
    let queue = this.byName.get(name);
    if (!queue) this.byName.set(name, (queue = new FairQueue(() => this.byName.delete(name))));
    queue.enter(owner);
    return queue;
  }
}
