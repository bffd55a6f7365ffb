import type { LockEvent } from '../../libs/distributed-lock/src/lock/events/lock.events.js';
import type { LockService } from '../../libs/distributed-lock/src/lock/lock.service.js';

/** The events of `service` from now on. */
export function eventsOf(service: LockService): LockEvent[] {
  const events: LockEvent[] = [];
  service.events$.subscribe((event) => events.push(event));
  return events;
}

/** Their types. `asked` is left out, since every call begins with it. */
export function typesOf(events: readonly LockEvent[]): string[] {
  return events.map(({ type }) => type).filter((type) => type !== 'asked');
}

/** What becomes of the calls of `service` from now on, such as `acquired goods:1`. */
export function outcomesOf(service: LockService): string[] {
  const outcomes: string[] = [];
  service.events$.subscribe(({ type, key }) => {
    if (type !== 'asked' && type !== 'contended') outcomes.push(`${type} ${key}`);
  });
  return outcomes;
}
