import type { Attributes, ObservableResult } from '@opentelemetry/api';
import { RebuiltMap } from '../../collections/rebuilt-map.js';

/** The attribute that the application makes of a key. */
export const KEY_LABEL = 'distributed_lock.key';

/** How long the oldest hold of each label is held. Finds it without looking at the others, because there may be 100 000. */
export class OldestHolds {
  /** By label, and never removed: the SDK repeats the last value of attributes that are not observed any more. */
  private readonly groups = new Map<unknown, Group>();

  /** @param common attributes of a measurement that is there from the start, so that an alert has a time series */
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
  /** When each call acquired its lock, in this order. */
  readonly since: RebuiltMap<number, number>;
}
