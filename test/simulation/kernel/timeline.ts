interface Entry {
  readonly at: number;
  readonly seq: number;
  run: (() => void) | undefined;
}

/** What will happen, by true time; of two at the same time the one that was added first. A binary heap. */
export class Timeline {
  private readonly heap: Entry[] = [];
  private added = 0;

  /** @returns takes it out again */
  add(at: number, run: () => void): () => void {
    const entry: Entry = { at, seq: this.added++, run };
    let i = this.heap.push(entry) - 1;
    for (let up = (i - 1) >> 1; i > 0 && isBefore(entry, this.heap[up] as Entry); up = (i - 1) >> 1) {
      this.heap[i] = this.heap[up] as Entry;
      i = up;
    }
    this.heap[i] = entry;
    return () => (entry.run = undefined);
  }

  /** The next entry that was not taken out, if it comes by `until`. */
  shift(until: number): { readonly at: number; readonly run: () => void } | undefined {
    for (let first = this.heap[0]; first && first.at <= until; first = this.heap[0]) {
      this.removeFirst();
      const { at, run } = first;
      if (run) return { at, run };
    }
    return undefined;
  }

  private removeFirst(): void {
    const { heap } = this;
    const last = heap.pop() as Entry;
    if (heap.length === 0) return;
    let i = 0;
    for (;;) {
      const left = 2 * i + 1;
      if (left >= heap.length) break;
      const right = left + 1;
      const least = right < heap.length && isBefore(heap[right] as Entry, heap[left] as Entry) ? right : left;
      if (!isBefore(heap[least] as Entry, last)) break;
      heap[i] = heap[least] as Entry;
      i = least;
    }
    heap[i] = last;
  }
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.at < b.at || (a.at === b.at && a.seq < b.seq);
}
