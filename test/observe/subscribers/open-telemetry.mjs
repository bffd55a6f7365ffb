// An instrumentation of OpenTelemetry that makes spans of the tracing channels.
import { tracingChannel } from 'node:diagnostics_channel';
import { context, SpanStatusCode } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InstrumentationBase, registerInstrumentations } from '@opentelemetry/instrumentation';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';

class LockInstrumentation extends InstrumentationBase {
  constructor() {
    super('lock-instrumentation', '1.0.0', {});
  }

  /** It patches no module: the library publishes by itself. */
  init() {
    return [];
  }

  enable() {
    this.subscribers ??= ['acquire', 'hold'].map((name) => [
      tracingChannel(`nestjs-distributed-lock:${name}`),
      this.subscriberFor(name),
    ]);
    for (const [channel, subscriber] of this.subscribers) channel.subscribe(subscriber);
  }

  disable() {
    for (const [channel, subscriber] of this.subscribers ?? []) channel.unsubscribe(subscriber);
  }

  subscriberFor(name) {
    const spans = new WeakMap();
    return {
      start: (message) => {
        const { key, mode, site } = message;
        const attributes = { 'lock.mode': mode, ...(site && { 'lock.site': site }) };
        spans.set(message, this.tracer.startSpan(`${name} ${key}`, { attributes }));
      },
      error: (message) => {
        spans.get(message)?.setStatus({ code: SpanStatusCode.ERROR, message: String(message.error) });
      },
      asyncEnd: (message) => spans.get(message)?.end(),
    };
  }
}

const exporter = new InMemorySpanExporter();
const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
registerInstrumentations({ tracerProvider, instrumentations: [new LockInstrumentation()] });

/** Runs `work` in a span. @returns the other spans: the name, the name of the parent and the status of each */
export async function traceWithOpenTelemetry(work) {
  const tracer = tracerProvider.getTracer('application');
  const child = (name, step) => tracer.startActiveSpan(name, async (span) => (await step(), span.end()));
  await tracer.startActiveSpan('request', async (span) => {
    await work(child);
    span.end();
  });
  const spans = exporter.getFinishedSpans();
  const names = new Map(spans.map((span) => [span.spanContext().spanId, span.name]));
  exporter.reset();
  return spans
    .filter(({ name }) => name !== 'request')
    .map(({ name, parentSpanContext, status }) => ({
      name,
      parent: names.get(parentSpanContext?.spanId),
      isFailed: status.code === SpanStatusCode.ERROR,
    }));
}
