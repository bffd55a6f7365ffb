import {
  type Attributes,
  type Meter,
  type MeterProvider,
  metrics,
  type ObservableResult,
} from '@opentelemetry/api';
import { RebuiltMap } from '../../common/collections.js';
import type { LockEvent } from '../../lock/events/lock.events.js';
import type { LockService } from '../../lock/lock.service.js';
import { isLockError } from '../../port/lock.errors.js';
import { checkOptions, type OptionRules } from '../../port/option-checks.js';

/** Options of `measureLocks` and of `LockMetricsModule`. */
export interface LockMetricsOptions {
  /**
   * Makes the attribute `distributed_lock.key` from a key: `(key) => key.split(':')[0]`. Default: no such attribute, because each
   * value of an attribute creates a time series. Must always return the same value for the same key.
   */
  readonly keyLabel?: (key: string) => string | undefined;
  /** Default: the global provider at the time when `measureLocks` is called. */
  readonly meterProvider?: MeterProvider;
}

/**
 * The bounds of the histogram buckets, in seconds. Acquiring a free lock takes about 1 ms, and so does a hand-off. The default
 * wait is 10 s, the default lease 30 s.
 */
const BOUNDARIES = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export const METRICS_NAMES: OptionRules<LockMetricsOptions> = { keyLabel: true, meterProvider: true };

/**
 * Measures the locks of one service, until the service closes. Call it before the first lock is acquired, because gauges
 * count from then on.
 *
 * | Instrument                                   | Kind                | Attributes beside `distributed_lock.registration`                     |
 * | -------------------------------------------- | ------------------- | --------------------------------------------------------------------- |
 * | `distributed_lock.wait.duration`             | histogram, s        | `distributed_lock.outcome`: `acquired`, `abandoned`; `error.type`     |
 * | `distributed_lock.hold.duration`             | histogram, s        | `distributed_lock.outcome`: `released`, `lost`                        |
 * | `distributed_lock.acquisitions`              | counter             | `distributed_lock.by`: `store`, `local`                               |
 * | `distributed_lock.releases`                  | counter             |                                                                       |
 * | `distributed_lock.abandoned_calls`           | counter             | `error.type`: the code of the lock error, or `aborted`                |
 * | `distributed_lock.losses`                    | counter             | `distributed_lock.reason`: `expired`, `taken`, `takeover`, `shutdown` |
 * | `distributed_lock.suspensions`               | counter             | leases whose renewals have stopped being answered                     |
 * | `distributed_lock.errors`                    | counter             | `distributed_lock.during`: `release`, `renewal`, …                    |
 * | `distributed_lock.waiting_calls`             | up-down counter     |                                                                       |
 * | `distributed_lock.held_locks`                | up-down counter     |                                                                       |
 * | `distributed_lock.hold.max_age`              | observable gauge, s | how long the oldest lock is held; not counting those of leaders       |
 * | `distributed_lock.store.unreachable_servers` | up-down counter     | servers that cannot be reached: 0, or 1 (in a quorum, up to all)      |
 * | `distributed_lock.leaders`                   | up-down counter     | `distributed_lock.leader.name`: 1 while this instance leads, or 0     |
 *
 * The histograms ask for buckets from one millisecond to one minute. Nested calls for a held key are not counted.
 */
export function measureLocks(service: LockService, options: LockMetricsOptions = {}): void {
  checkOptions('measureLocks', options, METRICS_NAMES);
  const { meterProvider = metrics.getMeterProvider(), keyLabel } = options;
  const meter = meterProvider.getMeter('nestjs-distributed-lock');
  const attributesOf = (key: string | undefined): Attributes => {
    const label = key === undefined ? undefined : keyLabel?.(key);
    const common: Attributes = { 'distributed_lock.registration': service.name };
    return label === undefined ? common : { ...common, [KEY_LABEL]: label };
  };
  const { clock } = service.options;
  const holds = new OldestHolds(attributesOf(undefined), () => clock.now());
  const recorder = new Recorder(meter, attributesOf, holds);
  const maxAge = meter.createObservableGauge('distributed_lock.hold.max_age', {
    description: 'How long the oldest lock is held now, those of leaders left out',
    unit: 's',
  });
  const observe = (result: ObservableResult): void => holds.observe(result);
  maxAge.addCallback(observe);
  service.events$.subscribe({
    next: (event) => recorder.onEvent(event),
    complete: () => maxAge.removeCallback(observe),
  });
}

type Instruments = ReturnType<typeof instrumentsOf>;

/**
 * Named after https://opentelemetry.io/docs/specs/semconv/general/metrics/: the name of a counter is a plural noun, its unit the
 * singular.
 */
function instrumentsOf(meter: Meter) {
  const duration = (name: string, description: string) =>
    meter.createHistogram(`distributed_lock.${name}.duration`, {
      description,
      unit: 's',
      advice: { explicitBucketBoundaries: BOUNDARIES },
    });
  const counter = (name: string, unit: string, description: string) =>
    meter.createCounter(`distributed_lock.${name}`, { description, unit });
  const gauge = (name: string, unit: string, description: string) =>
    meter.createUpDownCounter(`distributed_lock.${name}`, { description, unit });
  return {
    waitDuration: duration('wait', 'Time in the queue, whether the lock was acquired or not'),
    holdDuration: duration('hold', 'Time from the acquisition to the release or the loss'),
    acquisitions: counter('acquisitions', '{acquisition}', 'Locks acquired'),
    releases: counter('releases', '{release}', 'Locks released'),
    abandonedCalls: counter('abandoned_calls', '{call}', 'Calls that ended without the lock'),
    losses: counter('losses', '{loss}', 'Locks lost before their release'),
    suspensions: counter('suspensions', '{suspension}', 'Leases whose renewals stopped being answered'),
    errors: counter('errors', '{error}', 'Failures that no caller waits for'),
    waitingCalls: gauge('waiting_calls', '{call}', 'Calls that wait now'),
    heldLocks: gauge('held_locks', '{lock}', 'Locks held now'),
    unreachable: gauge(
      'store.unreachable_servers',
      '{server}',
      'Servers of the store that cannot be reached',
    ),
    leaders: gauge('leaders', '{leader}', 'Names that this instance leads now'),
  };
}

class Recorder {
  private readonly instruments: Instruments;
  private readonly unreachableNodes = new Set<number>();
  /** The keys of leader elections. Leaders hold their locks for days, so the age of the oldest lock leaves them out. */
  private readonly keysOfLeaders = new Set<string>();

  constructor(
    meter: Meter,
    private readonly attributesOf: (key: string | undefined) => Attributes,
    private readonly holds: OldestHolds,
  ) {
    this.instruments = instrumentsOf(meter);
    // Create the time series before the first outage: an alert on a series that does not exist never fires.
    this.instruments.unreachable.add(0, attributesOf(undefined));
  }

  onEvent(event: LockEvent): void {
    const { instruments } = this;
    const common = this.attributesOf(event.key);
    switch (event.type) {
      case 'asked':
        return instruments.waitingCalls.add(1, common);
      case 'acquired':
        return this.onAcquired(event, common);
      case 'abandoned':
        return this.onAbandoned(event, common);
      case 'released':
        instruments.releases.add(1, common);
        return this.onEnded(event, event.heldMs, common);
      case 'lost':
        instruments.losses.add(1, { ...common, 'distributed_lock.reason': event.error.reason });
        return this.onEnded(event, event.error.heldMs, common);
      case 'suspended':
        return instruments.suspensions.add(1, common);
      case 'store':
        return this.onStore(event, common);
      case 'candidate':
      case 'elected':
      case 'demoted': {
        this.keysOfLeaders.add(event.key);
        const change = { candidate: 0, elected: 1, demoted: -1 }[event.type];
        return instruments.leaders.add(change, { ...common, 'distributed_lock.leader.name': event.name });
      }
      case 'error':
        return instruments.errors.add(1, { ...common, 'distributed_lock.during': event.during });
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
  }

  private onAcquired(event: EventOf<'acquired'>, common: Attributes): void {
    const { waitingCalls, heldLocks, acquisitions, waitDuration } = this.instruments;
    waitingCalls.add(-1, common);
    heldLocks.add(1, common);
    if (!this.keysOfLeaders.has(event.key)) this.holds.add(event.call, common);
    acquisitions.add(1, { ...common, 'distributed_lock.by': event.by });
    waitDuration.record(event.waitedMs / 1000, { ...common, 'distributed_lock.outcome': 'acquired' });
  }

  private onAbandoned(event: EventOf<'abandoned'>, common: Attributes): void {
    const { waitingCalls, abandonedCalls, waitDuration } = this.instruments;
    const attributes = { ...common, 'error.type': errorType(event.error) };
    waitingCalls.add(-1, common);
    abandonedCalls.add(1, attributes);
    waitDuration.record(event.waitedMs / 1000, { ...attributes, 'distributed_lock.outcome': 'abandoned' });
  }

  private onEnded({ type, call }: EventOf<'released' | 'lost'>, heldMs: number, common: Attributes): void {
    this.instruments.heldLocks.add(-1, common);
    this.holds.delete(call, common);
    this.instruments.holdDuration.record(heldMs / 1000, { ...common, 'distributed_lock.outcome': type });
  }

  /** Counts only changes, because a store may report the same state twice. */
  private onStore({ state: { isUp, node = 0 } }: EventOf<'store'>, common: Attributes): void {
    if (isUp === !this.unreachableNodes.has(node)) return;
    if (isUp) this.unreachableNodes.delete(node);
    else this.unreachableNodes.add(node);
    this.instruments.unreachable.add(isUp ? -1 : 1, common);
  }
}

type EventOf<Type extends LockEvent['type']> = Extract<LockEvent, { readonly type: Type }>;

/**
 * The value of `error.type` for a call that gave up waiting: the code of the lock error, or `aborted` if the caller's signal
 * ended the wait.
 */
export function errorType(error: unknown): string {
  return isLockError(error) ? error.code : 'aborted';
}

/** The attribute whose value the option `keyLabel` makes from a key. */
const KEY_LABEL = 'distributed_lock.key';

/**
 * Finds, for each value of the key's attribute, how long the oldest lock is held. Does so without visiting all locks, of which
 * there may be 100 000.
 */
class OldestHolds {
  /**
   * By the value of the key's attribute. A group stays when it is empty and reports 0, because the SDK would go on exporting its
   * last value.
   */
  private readonly groups = new Map<unknown, Group>();

  /** @param common the attributes of a group that exists from the start, so that an alert has a time series */
  constructor(
    common: Attributes,
    private readonly now: () => number,
  ) {
    this.groupOf(common);
  }

  add(call: number, attributes: Attributes): void {
    this.groupOf(attributes).since.set(call, this.now());
  }

  delete(call: number, attributes: Attributes): void {
    this.groupOf(attributes).since.delete(call);
  }

  observe(result: ObservableResult): void {
    const now = this.now();
    for (const { attributes, since } of this.groups.values()) {
      const [first = now] = since.values();
      result.observe((now - first) / 1000, attributes);
    }
  }

  private groupOf(attributes: Attributes): Group {
    const label = attributes[KEY_LABEL];
    let group = this.groups.get(label);
    if (!group) this.groups.set(label, (group = { attributes, since: new RebuiltMap() }));
    return group;
  }
}

interface Group {
  readonly attributes: Attributes;
  /** When each call acquired its lock, the oldest first. */
  readonly since: RebuiltMap<number, number>;
}
