import type { View } from '../../../apps/seckill/src/live/view.js';

/** Collects the views that the page gets, until one is the last. */
export async function watch(url: string, isLast: (view: View) => boolean): Promise<readonly View[]> {
  const connection = new AbortController();
  const { body } = await fetch(`${url}/live`, { signal: connection.signal });
  const views: View[] = [];
  let text = '';
  try {
    for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      const messages = text.split('\n\n');
      text = messages.pop()!;
      for (const message of messages) {
        const data = /^data: (.*)$/m.exec(message)?.[1];
        if (data === undefined) continue;
        views.push(JSON.parse(data) as View);
        if (isLast(views.at(-1)!)) return views;
      }
    }
    throw new Error(`The stream ended after ${views.length} views.`);
  } finally {
    connection.abort();
  }
}
