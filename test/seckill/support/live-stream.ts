import type { LiveView } from '../../../apps/seckill/src/live/live-view.js';

/** What the page is told, view by view, until `isLast` says so. */
export async function watch(url: string, isLast: (view: LiveView) => boolean): Promise<readonly LiveView[]> {
  const connection = new AbortController();
  const { body } = await fetch(`${url}/live`, { signal: connection.signal });
  const views: LiveView[] = [];
  let text = '';
  try {
    for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      const messages = text.split('\n\n');
      text = messages.pop()!;
      for (const message of messages) {
        const data = /^data: (.*)$/m.exec(message)?.[1];
        if (data === undefined) continue;
        views.push(JSON.parse(data) as LiveView);
        if (isLast(views.at(-1)!)) return views;
      }
    }
    throw new Error(`The stream ended after ${views.length} views.`);
  } finally {
    connection.abort();
  }
}
