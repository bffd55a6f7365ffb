// Sentry's own subscriber of tracing channels on ours, with a transport that keeps what Sentry would send.
import { tracingChannel } from 'node:diagnostics_channel';
import * as Sentry from '@sentry/node';
import { bindTracingChannelToSpan } from '@sentry/server-utils';

/** All spans that Sentry would have sent. */
const sent = [];

Sentry.init({
  dsn: 'http://key@127.0.0.1:9/1',
  tracesSampleRate: 1,
  transport: () => ({
    send: async ([, items]) => {
      for (const [{ type }, content] of items) if (type === 'span') sent.push(...content.items);
      return {};
    },
    flush: async () => true,
  }),
});

for (const name of ['acquire', 'hold']) {
  const channel = tracingChannel(`nestjs-distributed-lock:${name}`);
  bindTracingChannelToSpan(channel, ({ key, mode, site }) =>
    Sentry.startInactiveSpan({ name: `${name} ${key}`, op: `lock.${name}`, attributes: { mode, site } }),
  );
}

/** Runs `work` in a span. @returns the other spans: the name, the name of the parent and the status of each */
export async function traceWithSentry(work) {
  const child = (name, step) => Sentry.startSpan({ name }, step);
  await Sentry.startSpan({ name: 'request' }, () => work(child));
  await Sentry.flush(10_000);
  const names = new Map(sent.map(({ span_id, name }) => [span_id, name]));
  return sent
    .filter(({ name }) => name !== 'request')
    .map(({ name, parent_span_id, status }) => ({
      name,
      parent: names.get(parent_span_id),
      isFailed: status !== 'ok',
    }));
}
