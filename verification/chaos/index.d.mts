/** One line of a history. `at` is on the machine's monotonic clock, in ms; `who` is the process that recorded it. */
export interface HistoryRecord {
  readonly at: number;
  readonly who: string;
  readonly type: string;
  readonly [detail: string]: unknown;
}

/** What a trial can run on. */
export type StoreName = 'redis' | 'postgres' | 'mysql' | 'mariadb' | 'etcd' | 'zookeeper';
export const STORES: readonly StoreName[];

/** A kind of fault, and what it excuses. Times in ms. */
export interface Kind {
  readonly name: string;
  /** What it does, in a few words. */
  readonly says: string;
  /** How long after it a wanted key may lie idle: from its start, or from its end if it stops the store. */
  readonly recoverMs?: number;
  /** While it lasts nobody can be let in. */
  readonly stopsStore?: boolean;
  /** The store forgets: two may believe in one lock for a lease. */
  readonly losesData?: boolean;
  /** A majority of the nodes is left, or new connections are fine: no call may fail by it, and no lock be lost. */
  readonly sparesMajority?: boolean;
  /** What `recoverMs` allows once may not be usual: the median of three or more has to keep this. */
  readonly goalMs?: number;
  readonly limits?: Limits;
  /** The stores that it is for; set for those of `kindsOf`. */
  readonly stores?: readonly StoreName[];
  readonly topology?: 'single' | 'sentinel' | 'cluster' | 'quorum' | 'standby' | 'pgbouncer' | 'none';
  /** Of a quorum; 3 by default. */
  readonly nodes?: number;
  readonly serverArgs?: readonly string[];
  /** Of an SQL server, or of each member of a cluster. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** Of a standby. */
  readonly synchronous?: boolean;
  readonly traffic?: Traffic;
  /** What this machine lacks for it. */
  readonly missing?: () => string | undefined;
  /** Makes the fault and heals it; none for what is only load. */
  readonly inject?: (world: unknown) => Promise<unknown>;
  /** What has to be put in order before the next one, given what `inject` resolved with. */
  readonly after?: (world: unknown, told: unknown) => Promise<unknown>;
  /** More variables for the processes of the service. */
  readonly env?: NodeJS.ProcessEnv;
  readonly shift?: () => unknown;
}

/** What is usual without a fault; each where it is judged. */
export interface Limits {
  /** For how long a wanted key may lie idle, in ms. */
  readonly idleMs?: number;
  /** What each process may weigh. */
  readonly megabytes?: number;
  /** What each caller may cost Redis a second. */
  readonly scriptsPerCaller?: number;
  /** How evenly processes are served, as Jain's index of their sections: 1 for all alike. */
  readonly jain?: number;
}

/** The load. */
export interface Traffic {
  readonly apps?: number;
  readonly keys?: number;
  readonly callersPerKey?: number;
  readonly workload?: string;
  readonly waitMs?: number;
  /** The longest time in ms that a caller does nothing after each call; 0 by default. */
  readonly pauseMs?: number;
  /** The watchdog's lease in ms. */
  readonly leaseMs?: number;
  /** More options of the store. */
  readonly store?: Readonly<Record<string, unknown>>;
  /** Length of a usual section in ms. */
  readonly shortMs?: number;
  /** Share of the calls that their callers abort. */
  readonly abortRate?: number;
  /** The processes run on machines that may be suspended: their monotonic clocks stand still then. */
  readonly sleeps?: boolean;
  /** So many processes, the first ones, no fault kills or freezes. */
  readonly sparesApps?: number;
}

/** Why the time of day of a process cannot be shifted on this machine; `undefined` if it can. */
export function missingShift(): string | undefined;

/** A shift of the time of day for processes that start with `env`. */
export class ClockShift {
  readonly env: NodeJS.ProcessEnv;
  /** While they run. */
  set(ms: number): void;
  remove(): void;
}

export interface Finding {
  readonly rule: string;
  readonly finding: string;
}

export interface Figures {
  readonly store: string;
  readonly kind: string;
  readonly seed: string;
  readonly faults: number;
  /** How often somebody was let in. */
  readonly sections: number;
  /** For each fault, how long the slowest key lay idle after it, in ms. */
  readonly recoveryMs: readonly number[];
  /** Holders that were told of a loss. */
  readonly told: number;
  /** How often two believed in one lock, excused by lost data. */
  readonly overlaps: number;
  /** Writes that the register refused. */
  readonly refused: number;
  /** How calls ended: `done`, or the code of the error. */
  readonly outcomes: Readonly<Record<string, number>>;
}

export interface Verdict {
  /** Empty if all went as promised. */
  readonly findings: readonly Finding[];
  readonly figures: Figures;
}

/** Everything about one call. Times are those of its records. */
export interface CallRecord {
  readonly id: string;
  readonly app: string;
  readonly key: string;
  readonly mode: string;
  readonly via: string;
  readonly waitMs: number;
  readonly askedAt: number;
  readonly token?: number;
  readonly owner?: string;
  /** When the first call of its owner asked. */
  readonly ownerFrom: number;
  readonly enteredAt?: number;
  readonly believedFrom?: number | null;
  readonly believedTo?: number | null;
  readonly toldAt?: number;
  readonly leftAt?: number;
  readonly settledAt?: number;
  readonly outcome?: string;
}

export interface Span {
  readonly from: number;
  readonly to: number;
}

/** A history, put together. */
export interface TrialRecord {
  readonly settings: HistoryRecord;
  readonly apps: ReadonlyMap<string, { readonly name: string; readonly pauses: readonly Span[] }>;
  readonly faults: readonly (HistoryRecord & Span)[];
  readonly calls: readonly CallRecord[];
  readonly register: readonly HistoryRecord[];
  readonly remains: readonly HistoryRecord[];
  readonly samples: readonly HistoryRecord[];
  /** What processes were told of the nodes of a quorum. */
  readonly nodes: readonly HistoryRecord[];
  /** Promises that were rejected and that nobody handled. */
  readonly unhandled: readonly HistoryRecord[];
  readonly failedFaults: readonly HistoryRecord[];
  readonly calmFrom: number | undefined;
  readonly closingFrom: number;
  readonly endedAt: number;
}

/** Judges a history, and nothing but the history. @throws Error if it does not begin with a `trial` */
export function checkHistory(records: readonly HistoryRecord[]): Verdict;

/** What has grown between the beginning and the end, per process that lived through it. */
export function growth(records: readonly HistoryRecord[]): { lines: string[]; findings: string[] };

/** The records of several files in the order in which things happened. */
export function readHistory(files: readonly string[]): HistoryRecord[];

export interface TrialOptions {
  /** `redis` by default. */
  readonly store?: StoreName;
  readonly kind: Kind;
  readonly seed: string;
  readonly seconds: number;
  /** Emptied first; its history.jsonl stays. */
  readonly folder: string;
  readonly traffic?: Traffic;
}

/** Runs real processes under one kind of fault, and judges what they recorded. */
export function runTrial(options: TrialOptions): Promise<Verdict>;

/** The library with one change, by which it must be found out. */
export interface Mutant {
  /** That it breaks; `redis` by default. */
  readonly store?: StoreName;
  readonly says: string;
  /** Of the compiled library, below dist/library. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** The kind of fault that shows it, and the rules one of which must be found broken. */
  readonly kind: string;
  readonly rules: readonly string[];
}

export const MUTANTS: readonly Mutant[];

/** A text of the library, changed. @throws Error when there is nothing to change in it */
export function mutate(source: string, mutant: Mutant): string;

/** Every kind of fault for a store. */
export function kindsOf(store: StoreName): readonly Kind[];
