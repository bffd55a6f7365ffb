import { wrongType } from '../resp/reply.js';
import { SortedSet } from './sorted-set.js';

export type Value = string | Map<string, string> | SortedSet;

export interface Entry {
  value: Value;
  /** Time of the server in ms. */
  expiresAt: number | undefined;
}

/** The keys of a server, with their expiry by the server's own clock. Remembers which keys have been written. */
export class Keyspace {
  private readonly entries = new Map<string, Entry>();
  private written = new Set<string>();

  /** @param now the server's clock in ms */
  constructor(private readonly now: () => number) {}

  get size(): number {
    for (const key of this.entries.keys()) this.find(key);
    return this.entries.size;
  }

  find(key: string): Entry | undefined {
    const entry = this.entries.get(key);
    if (entry?.expiresAt === undefined || this.now() <= entry.expiresAt) return entry;
    this.delete(key);
    return undefined;
  }

  text(key: string): string | undefined {
    const value = this.find(key)?.value;
    if (value === undefined || typeof value === 'string') return value;
    throw wrongType();
  }

  hash(key: string): Map<string, string> | undefined {
    const value = this.find(key)?.value;
    if (value === undefined || value instanceof Map) return value;
    throw wrongType();
  }

  sortedSet(key: string): SortedSet | undefined {
    const value = this.find(key)?.value;
    if (value === undefined || value instanceof SortedSet) return value;
    throw wrongType();
  }

  /** A new value without an expiry. */
  put(key: string, value: Value, expiresAt?: number): void {
    this.entries.set(key, { value, expiresAt });
    this.written.add(key);
  }

  /** Its value or its expiry has been changed in place. A hash or a sorted set that is empty now is deleted. */
  touch(key: string): void {
    this.written.add(key);
    const value = this.entries.get(key)?.value;
    if (value !== undefined && typeof value !== 'string' && value.size === 0) this.entries.delete(key);
  }

  delete(key: string): boolean {
    this.written.add(key);
    return this.entries.delete(key);
  }

  clear(): void {
    for (const key of this.entries.keys()) this.delete(key);
  }

  keys(): readonly string[] {
    return [...this.entries.keys()].filter((key) => this.find(key));
  }

  /** The keys that were written since this was last called, each as it is now. */
  takeWritten(): ReadonlyMap<string, Entry | undefined> {
    if (this.written.size === 0) return NONE;
    const changes = new Map<string, Entry | undefined>();
    for (const key of this.written) changes.set(key, copyOf(this.entries.get(key)));
    this.written = new Set();
    return changes;
  }

  /** Writes what another keyspace has written. */
  apply(changes: ReadonlyMap<string, Entry | undefined>): void {
    for (const [key, entry] of changes) {
      const copy = copyOf(entry);
      if (copy) this.entries.set(key, copy);
      else this.entries.delete(key);
    }
  }
}

const NONE: ReadonlyMap<string, Entry | undefined> = new Map();

function copyOf(entry: Entry | undefined): Entry | undefined {
  if (!entry) return undefined;
  const { value, expiresAt } = entry;
  if (typeof value === 'string') return { value, expiresAt };
  return { value: value instanceof Map ? new Map(value) : value.clone(), expiresAt };
}
