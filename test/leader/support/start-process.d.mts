/** What an instance says. */
export interface Said {
  readonly what: 'standing' | 'elected' | 'demoted' | 'refused' | 'exited';
  readonly fencingToken: number;
  /** By the clock of the machine, in ms, with fractions. */
  readonly at: number;
}

export interface InstanceProcess {
  readonly said: readonly Said[];
  readonly exited: Promise<unknown>;
  /** Waits until the instance has said it. @returns the first time */
  when(what: Said['what']): Promise<Said>;
  send(signal: NodeJS.Signals): void;
  stop(): Promise<void>;
}

export function startProcess(options: {
  readonly url: string;
  readonly watchdogTimeoutMs: number;
}): Promise<InstanceProcess>;
