import {
  SpanStatusCode,
  context,
  trace,
  type Attributes,
  type Context,
  type Span,
  type Tracer,
  type TracerProvider,
} from '@opentelemetry/api';
import { isLockError, type LockWaitTimeoutError } from '../../port/lock.errors.js';
import type { LockEvent } from '../../lock/events/lock.events.js';
import { ServiceInternals } from '../../lock/events/service-internals.js';
import type { LockService } from '../../lock/lock.service.js';
import { checkOptions, type OptionRules } from '../../port/option-checks.js';
import { errorType } from './lock.metrics.js';

/** Options of `traceLocks` and of `LockTracingModule`. */
export interface LockTracingOptions {
  /**
   * Makes the attribute `distributed_lock.key` from a key; `undefined` leaves the attribute out. Default: the key itself, as in
   * the log. With this option spans contain no error messages, because those name keys and holders.
   */
  readonly keyLabel?: (key: string) => string | undefined;
  /** Default: the global provider at the time when `traceLocks` is called. */
  readonly tracerProvider?: TracerProvider;
}

export const TRACING_NAMES: OptionRules<LockTracingOptions> = { keyLabel: true, tracerProvider: true };

/**
 * Makes spans of the calls of one service, until the service closes. Their parent is the active span of the call, so they
 * are siblings of the spans of the work. Each has `distributed_lock.registration` and `distributed_lock.key`, and:
 *
 * - `distributed_lock.wait`, from the request to the grant or the end of the wait: `distributed_lock.outcome` (`acquired`,
 *   `abandoned`), `distributed_lock.by` (`store`, `local`); abandoned, `error.type`, `distributed_lock.holder`, and, where
 *   the error names it, `distributed_lock.holder_application`, `…holder_host` and `…holder_site`.
 * - `distributed_lock.hold`, from the grant to the release or the loss: `distributed_lock.outcome` (`released`, `lost`),
 *   `distributed_lock.owner`, `distributed_lock.fencing_token`; lost, `error.type` and `distributed_lock.reason`. Its event
 *   `suspended` is a renewal without an answer, with `distributed_lock.valid_for` in seconds; its event `resumed` ends that. Its event
 *   `contended` tells that others begin to wait, and `takeover` that another call takes the lock over, with
 *   `distributed_lock.grace` in seconds.
 *
 * Spans of a loss and of an abandoned wait have the status of an error, except that a busy key is no error for a call with
 * `waitMs: 0`. Nested calls for a held key make no spans.
 */
export function traceLocks(service: LockService, options: LockTracingOptions = {}): void {
  checkOptions('traceLocks', options, TRACING_NAMES);
  const { tracerProvider = trace.getTracerProvider() } = options;
  const tracing = new Tracing(tracerProvider.getTracer('nestjs-distributed-lock'), service.name, options);
  ServiceInternals.of(service).events.inPlace.subscribe((event) => {
    if (event.type === 'asked') tracing.onAsked(event.call, event.key);
  });
  service.events$.subscribe((event) => tracing.onEvent(event));
}

/** One call of a lock, from its request to its release. */
interface TracedCall {
  readonly parent: Context;
  readonly common: Attributes;
  /** The span of the wait. After the grant, the span of the hold. */
  span: Span;
}

type Acquired = Extract<LockEvent, { readonly type: 'acquired' }>;
type Ended = Extract<LockEvent, { readonly type: 'released' | 'lost' }>;
type Lease = { readonly owner: string; readonly key: string };

class Tracing {
  private readonly calls = new Map<number, TracedCall>();
  /**
   * The spans of holds by owner and key. An event of a renewal names no call, and several readers of one process share one lease.
   */
  private readonly holds = new Map<string, Set<Span>>();

  constructor(
    private readonly tracer: Tracer,
    private readonly registration: string,
    private readonly options: LockTracingOptions,
  ) {}

  onEvent(event: LockEvent): void {
    switch (event.type) {
      case 'acquired':
        return this.onAcquired(event);
      case 'abandoned': {
        const timeout = timeoutOf(event.error);
        const error = timeout.waitMs === 0 ? undefined : event.error;
        return this.end(event.call, { ...holderIn(timeout), 'distributed_lock.outcome': 'abandoned' }, error);
      }
      case 'released':
        this.forget(event);
        return this.end(event.call, { 'distributed_lock.outcome': 'released' });
      case 'lost': {
        const reason = { 'distributed_lock.reason': event.error.reason };
        this.forget(event);
        return this.end(event.call, { ...reason, 'distributed_lock.outcome': 'lost' }, event.error);
      }
      case 'suspended': {
        const validFor = { 'distributed_lock.valid_for': event.validForMs / 1000 };
        return this.tell(event, 'suspended', validFor);
      }
      case 'resumed':
      case 'contended':
        return this.tell(event, event.type);
      case 'takeover':
        return this.tell(event, 'takeover', { 'distributed_lock.grace': event.graceMs / 1000 });
      case 'asked':
      case 'forced':
      case 'error':
      case 'candidate':
      case 'elected':
      case 'demoted':
      case 'opened':
      case 'store':
      case 'warning':
        return;
      default:
        event satisfies never;
    }
  }

  /** Called in the async context of the call, so the caller's active span becomes the parent. */
  onAsked(call: number, key: string): void {
    const parent = context.active();
    const { keyLabel } = this.options;
    const label = keyLabel ? keyLabel(key) : key;
    const registration = { 'distributed_lock.registration': this.registration };
    const common = label === undefined ? registration : { ...registration, 'distributed_lock.key': label };
    const span = this.tracer.startSpan('distributed_lock.wait', { attributes: common }, parent);
    this.calls.set(call, { parent, common, span });
  }

  private onAcquired(event: Acquired): void {
    const call = this.calls.get(event.call);
    if (!call) return;
    call.span.setAttributes({ 'distributed_lock.outcome': 'acquired', 'distributed_lock.by': event.by });
    call.span.end();
    const attributes = {
      ...call.common,
      'distributed_lock.owner': event.owner,
      'distributed_lock.fencing_token': event.fencingToken,
    };
    call.span = this.tracer.startSpan('distributed_lock.hold', { attributes }, call.parent);
    const holds = this.holds.get(nameOf(event));
    if (holds) holds.add(call.span);
    else this.holds.set(nameOf(event), new Set([call.span]));
  }

  private forget(event: Ended): void {
    const holds = this.holds.get(nameOf(event));
    const span = this.calls.get(event.call)?.span;
    if (span) holds?.delete(span);
    if (holds?.size === 0) this.holds.delete(nameOf(event));
  }

  private tell(lease: Lease, name: string, attributes?: Attributes): void {
    for (const span of this.holds.get(nameOf(lease)) ?? []) span.addEvent(name, attributes);
  }

  private end(number: number, attributes: Attributes, error?: unknown): void {
    const span = this.calls.get(number)?.span;
    this.calls.delete(number);
    span?.setAttributes(attributes);
    if (error !== undefined) {
      span?.setAttribute('error.type', errorType(error));
      span?.setStatus({ code: SpanStatusCode.ERROR, ...this.messageOf(error) });
    }
    span?.end();
  }

  private messageOf(error: unknown): { readonly message?: string } {
    // `error` may be anything: a caller may abort its signal with any value as the reason.
    const { message } = Object(error) as { readonly message?: unknown };
    return this.options.keyLabel || typeof message !== 'string' ? {} : { message };
  }
}

function nameOf({ owner, key }: Lease): string {
  return `${owner} ${key}`;
}

/** Attributes that say who held the lock, as far as the error knows. */
function holderIn({ holder, heldBy }: Partial<LockWaitTimeoutError>): Attributes {
  const { client, site } = heldBy ?? {};
  return {
    ...(holder !== undefined && { 'distributed_lock.holder': holder }),
    ...(client && {
      'distributed_lock.holder_application': client.application,
      'distributed_lock.holder_host': client.host,
    }),
    ...(site !== undefined && { 'distributed_lock.holder_site': site }),
  };
}

/** Checks the code and not the class, because an application may load both builds of this package. */
function timeoutOf(error: unknown): Partial<LockWaitTimeoutError> {
  return isLockError(error, 'LOCK_WAIT_TIMEOUT') ? error : {};
}
