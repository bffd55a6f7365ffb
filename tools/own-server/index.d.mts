import type { GuardedOptions } from '../processes/index.d.mts';

/** A private server on 127.0.0.1 that ends with this process, however that ends. */
export interface OwnServer {
  readonly port: number;
  readonly url: string;
  /** Its data and its configuration. Removed by `stop`. */
  readonly folder: string;
  /** Freezes all its processes: connections stay open, nothing is answered. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Ends all its processes at once, as a crash would. */
  kill(): Promise<void>;
  /** Kills it if it runs, and starts it again on the same port and folder. Resolves when it takes connections. */
  restart(): Promise<void>;
  /** Ends it and removes its folder. Repeatable. */
  stop(): Promise<void>;
}

/** A server process, from one start to its end. */
export interface RunningServer {
  pause(): Promise<unknown>;
  resume(): Promise<unknown>;
  /** Resolves when it has ended. */
  kill(): Promise<unknown>;
}

export interface OwnServerOptions {
  /** How its folder begins. */
  readonly name: string;
  readonly urlOn: (port: number) => string;
  /** Fills a new folder, before the first start. */
  readonly prepare?: (folder: string) => Promise<unknown>;
  /** Starts it; rejects when it does not come up, as another server may have taken the port in between. */
  readonly run: (port: number, folder: string) => Promise<RunningServer>;
}

/** Starts a server on a free port, with a folder of its own. */
export function startOwnServer(options: OwnServerOptions): Promise<OwnServer>;

export interface OwnServerParts {
  readonly port: number;
  readonly url: string;
  /** Removed by `stop`. */
  readonly folder: string;
  readonly running: RunningServer;
  /** Starts it again, on the same port and folder. */
  readonly start: () => Promise<RunningServer>;
}

/** What a running server's process and folder are to tests. */
export function ownServerOn(parts: OwnServerParts): OwnServer;

export interface RunOptions extends Omit<GuardedOptions, 'folder' | 'stdio'> {
  /** Where its log is written. */
  readonly folder: string;
  readonly isReady: (pid: number | undefined, log: string) => boolean | Promise<boolean>;
  /** How to send it a signal; to the child alone by default. */
  readonly signal?: (name: NodeJS.Signals, pid: number | undefined) => unknown;
}

/**
 * Starts one process and resolves when it is ready.
 *
 * @throws Error with its log, when it ends before that or takes longer than 30 s
 */
export function runUntilReady(
  command: string,
  args: readonly string[],
  options: RunOptions,
): Promise<RunningServer>;

export interface FirstDataOptions {
  /** What the server's program says of itself. */
  readonly version: string;
  /** Whom the server runs as. */
  readonly user: { readonly uid?: number; readonly gid?: number };
  /** Makes the data of a server that has never run, in an empty folder of its user. */
  readonly make: (data: string) => Promise<unknown>;
}

/**
 * Fills `data` in the folder of a new server, and makes `folder` its user's own. A server of one version is made once and then
 * copied from node_modules/.cache, because some servers take seconds of a core for their first data.
 */
export function firstData(folder: string, options: FirstDataOptions): Promise<void>;

/** A port that nobody listened on a moment ago. */
export function freePort(): Promise<number>;

/** Whether something takes connections on the port. */
export function isListening(port: number): Promise<boolean>;

/** Whom a server runs as that refuses to run as root: nobody. Empty where this process is not root. */
export function unprivileged(): { readonly uid?: number; readonly gid?: number };
