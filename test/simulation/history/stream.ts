import { Readable } from 'node:stream';
import type { StreamPlan } from '../plan/plan.js';

type Items = AsyncGenerator<number>;

/** The items as a stream of this kind, of which nothing is read ahead. */
export function streamOf(kind: StreamPlan['kind'], items: Items): AsyncIterable<number> {
  switch (kind) {
    case 'generator':
      return items;
    case 'readable':
      return Readable.from(items, { highWaterMark: 1 });
    case 'web stream':
      return new ReadableStream<number>(
        {
          async pull(controller) {
            const { done, value } = await items.next();
            if (done) controller.close();
            else controller.enqueue(value);
          },
          cancel: async () => void (await items.return(undefined)),
        },
        { highWaterMark: 0 },
      );
  }
}

/** Reads it as the plan says, or leaves it at this item. @returns how many items it has given */
export async function readStream(
  items: AsyncIterable<number>,
  reader: StreamPlan['reader'] | { readonly leavesAt: number },
): Promise<number> {
  let count = 0;
  if (reader === 'drops') {
    await end(items);
    return count;
  }
  const last = { reads: Infinity, leaves: 0 };
  const leavesAt = typeof reader === 'string' ? last[reader] : reader.leavesAt;
  for await (const item of items) {
    count += 1;
    if (item >= leavesAt) break;
  }
  return count;
}

async function end(items: AsyncIterable<number>): Promise<void> {
  if (items instanceof Readable) items.destroy();
  else if (items instanceof ReadableStream) await items.cancel();
  else await (items as Items).return(undefined);
}
