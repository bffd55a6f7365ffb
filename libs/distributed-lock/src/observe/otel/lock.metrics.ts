import {
  metrics,
  type Attributes,
  type Meter,
  type MeterProvider,
  type ObservableResult,
} from '@opentelemetry/api';
import { isLockError } from '../../port/lock.errors.js';
import type { LockEvent } from '../../lock/events/lock.events.js';
import type { LockService } from '../../lock/lock.service.js';
import { checkOptionNames, type OptionNames } from '../../options/option-names.js';
import { KEY_LABEL, OldestHolds } from './oldest-hold.js';

/** Options of `measureLocks` and of `LockMetricsModule`. */
export interface LockMetricsOptions {
  /**
   * Makes the attribute `distributed_lock.key` from a key: `(key) => key.split(':')[0]`. Without it there is no such
   * attribute, because every value is a time series of its own. Must always return the same value for the same key.
   */
  readonly keyLabel?: (key: string) => string | undefined;
  /** Default: the global one at the time of the call. */
  readonly meterProvider?: MeterProvider;
}

/** In seconds. Acquiring a free lock and a hand-off take about 1 ms, the default wait is 10 s, the default lease 30 s. */
const BOUNDARIES = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export const METRICS_NAMES: OptionNames<LockMetricsOptions> = { keyLabel: true, meterProvider: true };

/**
 * Measures the locks of one service, until the service closes. Call it before the first lock is acquired, because gauges
 * count from then on.
 *
 * | Instrument                       | Kind              | Attributes beside `distributed_lock.registration`                  |
 * | -------------------------------- | ----------------- | ------------------------------------------------------------------ |
 * | `distributed_lock.wait.duration` | histogram, s      | `distributed_lock.outcome`: `acquired`, `abandoned`; `error.type`  |
 * | `distributed_lock.hold.duration` | histogram, s      | `distributed_lock.outcome`: `released`, `lost`                     |
 * | `distributed_lock.acquired`      | counter           | `distributed_lock.by`: `store`, `local`                            |
 * | `distributed_lock.released`      | counter           |                                                                    |
 * | `distributed_lock.abandoned`     | counter           | `error.type`: the code of the lock error, or `aborted`             |
 * | `distributed_lock.lost`          | counter           | `distributed_lock.reason`: `expired`, `taken`, `takeover`, `shutdown` |
 * | `distributed_lock.suspended`     | counter           | leases whose renewals have stopped being answered                  |
 * | `distributed_lock.errors`        | counter           | `distributed_lock.during`: `release`, `renewal`, …                 |
 * | `distributed_lock.waiting`       | up-down counter   |                                                                    |
 * | `distributed_lock.held`          | up-down counter   |                                                                    |
 * | `distributed_lock.hold.oldest`   | observable gauge, s | how long the oldest lock is held; not counting those of leaders  |
 * | `distributed_lock.store.down`    | up-down counter   | servers that cannot be reached: 0, or 1 (in a quorum, up to all)   |
 * | `distributed_lock.leader`        | up-down counter   | `distributed_lock.leader.name`: 1 while this instance leads, or 0  |
 *
 * The histograms ask for buckets from one millisecond to one minute. Nested calls for a held key are not counted.
 */
export function measureLocks(service: LockService, options: LockMetricsOptions = {}): void {
  checkOptionNames('measureLocks', options, METRICS_NAMES);
  const { meterProvider = metrics.getMeterProvider(), keyLabel } = options;
  const meter = meterProvider.getMeter('nestjs-distributed-lock');
  const attributesOf = (key: string | undefined): Attributes => {
    const label = key === undefined ? undefined : keyLabel?.(key);
    const common: Attributes = { 'distributed_lock.registration': service.name };
    return label === undefined ? common : { ...common, [KEY_LABEL]: label };
  };
  const { clock } = service.options;
  const holds = new OldestHolds(attributesOf(undefined), () => clock.now());
  const record = recorder(meter, attributesOf, holds);
  const oldest = meter.createObservableGauge('distributed_lock.hold.oldest', {
    description: 'How long the oldest lock is held now, those of leaders left out',
    unit: 's',
  });
  const observe = (result: ObservableResult): void => holds.observe(result);
  oldest.addCallback(observe);
  service.events$.subscribe({
    next: (event) => record(event),
    complete: () => oldest.removeCallback(observe),
  });
}

function recorder(meter: Meter, attributesOf: (key: string | undefined) => Attributes, holds: OldestHolds) {
  const duration = (name: string, description: string) =>
    meter.createHistogram(`distributed_lock.${name}.duration`, {
      description,
      unit: 's',
      advice: { explicitBucketBoundaries: BOUNDARIES },
    });
  const counter = (name: string, description: string, unit: string) =>
    meter.createCounter(`distributed_lock.${name}`, { description, unit });
  const gauge = (name: string, description: string, unit: string) =>
    meter.createUpDownCounter(`distributed_lock.${name}`, { description, unit });

  const wait = duration('wait', 'Time in the queue, whether the lock was acquired or not');
  const hold = duration('hold', 'Time from the acquisition to the release or the loss');
  const acquired = counter('acquired', 'Locks acquired', '{lock}');
  const released = counter('released', 'Locks released', '{lock}');
  const abandoned = counter('abandoned', 'Waits that ended without the lock', '{call}');
  const lost = counter('lost', 'Locks lost before their release', '{lock}');
  const suspended = counter('suspended', 'Renewals that got no answer while the lease was valid', '{lock}');
  const errors = counter('errors', 'Failures that no caller waits for', '{error}');
  const waiting = gauge('waiting', 'Callers that wait now', '{call}');
  const held = gauge('held', 'Locks held now', '{lock}');
  const storeDown = gauge('store.down', 'Servers of the store that cannot be reached now', '{server}');
  const leader = gauge('leader', 'Names that this instance leads now', '{leader}');
  // So that the time series exists before the first outage: an alert on a series that is absent says nothing.
  storeDown.add(0, attributesOf(undefined));
  const downNodes = new Set<number>();
  /** Leaders hold their locks for days. */
  const keysOfLeaders = new Set<string>();

  return (event: LockEvent): void => {
    const common = attributesOf(event.key);
    const outcome = { ...common, 'distributed_lock.outcome': event.type };
    switch (event.type) {
      case 'asked':
        return waiting.add(1, common);
      case 'acquired':
        waiting.add(-1, common);
        held.add(1, common);
        if (!keysOfLeaders.has(event.key)) holds.add(event.call, common);
        acquired.add(1, { ...common, 'distributed_lock.by': event.by });
        return wait.record(event.waitedMs / 1000, outcome);
      case 'abandoned': {
        const type = { 'error.type': errorType(event.error) };
        waiting.add(-1, common);
        abandoned.add(1, { ...common, ...type });
        return wait.record(event.waitedMs / 1000, { ...outcome, ...type });
      }
      case 'released':
        held.add(-1, common);
        holds.delete(event.call, common);
        released.add(1, common);
        return hold.record(event.heldMs / 1000, outcome);
      case 'lost':
        held.add(-1, common);
        holds.delete(event.call, common);
        lost.add(1, { ...common, 'distributed_lock.reason': event.error.reason });
        return hold.record(event.error.heldMs / 1000, outcome);
      case 'suspended':
        return suspended.add(1, common);
      case 'store': {
        const { isUp, node = 0 } = event.state;
        const isChanged = isUp ? downNodes.delete(node) : !downNodes.has(node);
        if (!isUp) downNodes.add(node);
        return isChanged ? storeDown.add(isUp ? -1 : 1, common) : undefined;
      }
      case 'candidate':
      case 'elected':
      case 'demoted': {
        keysOfLeaders.add(event.key);
        const change = { candidate: 0, elected: 1, demoted: -1 }[event.type];
        return leader.add(change, { ...common, 'distributed_lock.leader.name': event.name });
      }
      case 'error':
        return errors.add(1, { ...common, 'distributed_lock.during': event.during });
      case 'resumed':
      case 'contended':
      case 'takeover':
      case 'forced':
      case 'opened':
      case 'warning':
        return;
      default:
        event satisfies never;
    }
  };
}

/** The value of `error.type` for an abandoned wait: the code of the lock error, or `aborted` by the caller's signal. */
export function errorType(error: unknown): string {
  return isLockError(error) ? error.code : 'aborted';
}
