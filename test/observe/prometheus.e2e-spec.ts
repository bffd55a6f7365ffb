import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createNoopMeter, type Meter, type MeterProvider as AnyMeterProvider } from '@opentelemetry/api';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { LockStoreError } from 'nestjs-distributed-lock';
import { LeaderModule } from 'nestjs-distributed-lock/leader';
import { LockMetricsModule, measureLocks } from 'nestjs-distributed-lock/otel';
import { WatchedApp } from './watched-app.js';

const read = (path: string) => readFileSync(new URL(`../../docs/${path}`, import.meta.url), 'utf8');
const PAGE = read('production.md');
const ALERTS = read('prometheus/alerts.yml');
const DASHBOARD = read('prometheus/dashboard.json');

const LOCK_ERRORS = [
  ...readFileSync(
    new URL('../../libs/distributed-lock/src/port/lock.errors.ts', import.meta.url),
    'utf8',
  ).matchAll(/readonly code = '(\w+)'/g),
].map(([, code]) => code as string);

interface Metric {
  readonly kind: string;
  readonly unit: string;
  readonly labels: readonly string[];
}

/** What Prometheus reads of this library, from the text that the exporter serves. Labels of the exporter are left out. */
function metricsIn(text: string): Map<string, Metric> {
  const metrics = new Map<string, Metric>();
  for (const [, name = '', kind = ''] of text.matchAll(/^# TYPE (distributed_lock_\w+) (\w+)$/gm)) {
    const unit = new RegExp(`^# UNIT ${name} (.+)$`, 'm').exec(text)?.[1] ?? '';
    const samples = text.matchAll(new RegExp(`^${name}(?:_sum|_count|_bucket)?\\{(.*)\\}`, 'gm'));
    const labels = [...samples].flatMap(([, all = '']) =>
      [...all.matchAll(/(\w+)="/g)].map(([, it = '']) => it),
    );
    const own = labels.filter((label) => !['le', 'otel_scope_name'].includes(label));
    metrics.set(name, { kind, unit, labels: [...new Set(own)].toSorted() });
  }
  return metrics;
}

/** Every instrument that the library makes, by its name and with its unit. */
function instruments(app: WatchedApp): Map<string, string> {
  const made = new Map<string, string>();
  const meter = createNoopMeter();
  const recording = new Proxy(meter, {
    get: (target, method: keyof Meter) => (name: string, options: { readonly unit: string }) => {
      made.set(name, options.unit);
      return (target[method] as (name: string) => unknown).call(target, name);
    },
  });
  measureLocks(app.locks, { meterProvider: { getMeter: () => recording } as AnyMeterProvider });
  return made;
}

/** Everything that a lock may meet happens once, so that each instrument has a value. */
async function liveThrough(app: WatchedApp): Promise<void> {
  const { locks, clock, storeContext: store } = app;
  const [first, second] = ['k', 'k'].map((key) => locks.acquire(key));
  const impatient = locks.acquire('k', { waitMs: 100 }).catch(() => undefined);
  await clock.advance(100);
  await impatient;
  await (await first)?.release();
  await (await second)?.release();
  await locks.acquire('renewed');
  app.cutRenewals();
  await clock.advance(31_000);
  app.mend();
  store?.onState?.({ isUp: false, error: new LockStoreError('away', undefined, 'unready') });
  store?.onError?.('release', new LockStoreError('no answer', undefined, 'unknown'));
}

let app: WatchedApp;
let server: Server;
let metrics: Map<string, Metric>;
let scrape: () => Promise<string>;

beforeAll(async () => {
  const exporter = new PrometheusExporter({ preventServerStart: true });
  const meterProvider = new MeterProvider({ readers: [exporter] });
  server = createServer((request, response) => exporter.getMetricsRequestHandler(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  scrape = async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  app = await WatchedApp.start(
    {},
    { imports: [LockMetricsModule.forRoot({ meterProvider }), LeaderModule.forFeature('poller')] },
  );
});

afterAll(async () => {
  await app.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

describe('what Prometheus reads of the locks', () => {
  it('says from the start that the store can be reached, so that the first outage is a change', async () => {
    expect(await scrape()).toMatch(/^distributed_lock_store_unreachable_servers\{.*\} 0$/m);
  });

  it('has every instrument of the library, once everything has happened', async () => {
    await liveThrough(app);
    metrics = metricsIn(await scrape());
    const expected = [...instruments(app)].map(([name, unit]) => {
      const stem = name.replaceAll('.', '_');
      return [metrics.has(`${stem}_total`) ? `${stem}_total` : stem, unit] as const;
    });
    const units = [...metrics].map(([name, { unit }]) => [name, unit] as const);
    expect(Object.fromEntries(units)).toEqual(Object.fromEntries(expected));
    expect(metrics.size).toBeGreaterThan(10);
  });

  it('counts the outages of the store, and their ends, each server once', async () => {
    const down = async () =>
      Number(/^distributed_lock_store_unreachable_servers\{.*\} (\d+)$/m.exec(await scrape())?.[1]);
    const error = new LockStoreError('away', undefined, 'unready');
    const { storeContext: store } = app;
    expect(await down()).toBe(1);
    store?.onState?.({ isUp: false, error });
    expect(await down()).toBe(1);
    store?.onState?.({ isUp: false, error, node: 2 });
    expect(await down()).toBe(2);
    store?.onState?.({ isUp: true, afterMs: 1 });
    store?.onState?.({ isUp: true, afterMs: 1, node: 2 });
    store?.onState?.({ isUp: true, afterMs: 1, node: 2 });
    expect(await down()).toBe(0);
  });

  it('is on the page with its name, kind, unit and labels, and nothing else is', () => {
    const rows = [...PAGE.matchAll(/^\| `(distributed_lock_\w+)` +\|(.*)\|$/gm)].map(
      ([, name, rest = '']) => {
        const [instrument = '', kind = '', unit = '', labels = ''] = rest
          .split('|')
          .map((cell) => cell.trim());
        const names = [...labels.matchAll(/`(\w+)`/g)].map(([, label = '']) => label);
        const all = [...names, 'distributed_lock_registration'].toSorted();
        return { name, instrument, kind, unit, labels: all };
      },
    );
    const expected = [...metrics].map(([name, { kind, unit, labels }]) => ({
      name,
      instrument: [...instruments(app).keys()]
        .filter((it) => name.replace(/_total$/, '') === it.replaceAll('.', '_'))
        .map((it) => `\`${it}\``)
        .join(),
      kind,
      unit: `\`${unit}\``,
      labels,
    }));
    const byName = (a: { readonly name?: string }, b: { readonly name?: string }) =>
      String(a.name).localeCompare(String(b.name));
    expect(rows.toSorted(byName)).toEqual(expected.toSorted(byName));
  });
});

/** Names of metrics and labels in the queries of a file. A histogram's name may have its unit, as some exporters add it. */
function queried(queries: string): { readonly metrics: string[]; readonly labels: string[] } {
  const names = [...queries.matchAll(/\bdistributed_lock_\w+(?:\(_seconds\)\?_\w+)?/g)].map(([name]) => name);
  const all = new Set(names.map((name) => name.replace(/(\(_seconds\)\?)?(_bucket|_sum|_count)?$/, '')));
  const labels = new Set([...queries.matchAll(/\b(\w+)(?=!?=~?\\?")/g)].map(([, label = '']) => label));
  return { metrics: [...all], labels: [...labels].filter((label) => label !== '__name__') };
}

describe.each([
  ['the dashboard', DASHBOARD, 10],
  ['the alerts', ALERTS, 5],
])('%s', (_, file, count) => {
  it('asks for metrics and labels that exist', () => {
    const known = new Set([...metrics.values()].flatMap(({ labels }) => labels));
    const asked = queried(file);
    const strangers = asked.metrics.filter((name) => !metrics.has(name) && !known.has(name));
    expect(asked.metrics.length).toBeGreaterThanOrEqual(count);
    expect(strangers).toEqual([]);
    expect(asked.labels.filter((label) => !known.has(label))).toEqual([]);
  });

  it('takes gauges in seconds under both names that exporters give them', () => {
    const gauges = [...metrics].filter(([, { kind, unit }]) => kind === 'gauge' && unit === 's');
    const wrong = gauges.filter(([name]) => new RegExp(`${name}(?!\\(_seconds\\)\\?\\\\?")`).test(file));
    expect([gauges.length, wrong]).toEqual([1, []]);
  });

  it('takes histograms under both names that exporters give them', () => {
    const histograms = [...metrics].filter(([, { kind }]) => kind === 'histogram').map(([name]) => name);
    const wrong = histograms.filter((name) => new RegExp(`${name}(?!\\(_seconds\\)\\?_)`).test(file));
    expect(wrong).toEqual([]);
  });

  it('names only codes of errors that exist', () => {
    const codes = [...file.matchAll(/LOCK_[A-Z_]+/g)].map(([code]) => code);
    expect(codes.filter((code) => !LOCK_ERRORS.includes(code))).toEqual([]);
  });
});

describe('the dashboard', () => {
  interface Panel {
    readonly title: string;
    readonly fieldConfig: { readonly defaults: { readonly unit: string } };
    readonly targets: readonly { readonly expr: string }[];
  }
  const { panels } = JSON.parse(DASHBOARD) as { readonly panels: readonly Panel[] };

  it('shows every metric', () => {
    const shown = queried(DASHBOARD).metrics;
    expect([...metrics.keys()].filter((name) => !shown.includes(name))).toEqual([]);
  });

  it.each(panels.map((panel) => [panel.title, panel] as const))(
    'has the unit of its metrics: %s',
    (_, panel) => {
      for (const { expr } of panel.targets) {
        const [name = ''] = queried(expr).metrics.filter((it) => metrics.has(it));
        const { kind, unit } = metrics.get(name)!;
        const expected = unit === 's' ? 's' : kind === 'counter' ? 'ops' : 'short';
        expect([name, panel.fieldConfig.defaults.unit]).toEqual([name, expected]);
        expect(expr.includes('rate(')).toBe(kind !== 'gauge');
      }
    },
  );
});
