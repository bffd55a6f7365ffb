import type { ServerEnd } from '../../network/connection.js';
import { eventOf } from './replies.js';
import type { Transaction } from './tree.js';

/** The watches on the data of znodes. Each tells its connection once. */
export class Watches {
  private readonly byPath = new Map<string, Set<ServerEnd>>();

  add(path: string, end: ServerEnd): void {
    const ends = this.byPath.get(path) ?? new Set();
    this.byPath.set(path, ends.add(end));
  }

  endAll(end: ServerEnd): void {
    for (const ends of this.byPath.values()) ends.delete(end);
  }

  /** Events are sent before the reply to a request that was executed later. */
  fire({ zxid, changes }: Transaction): void {
    for (const [path, node] of changes) {
      // A parent of which only the children have changed.
      if (node && node.mzxid !== zxid) continue;
      const ends = this.byPath.get(path);
      if (!ends) continue;
      this.byPath.delete(path);
      for (const end of ends) end.send(eventOf(path, node ? 'changed' : 'deleted'), 'message');
    }
  }
}
