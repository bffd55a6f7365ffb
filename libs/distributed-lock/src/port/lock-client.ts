/** Which process a client of a store is, for people who look for the holder of a lock. Exclusion does not depend on it. */
export interface LockClient {
  /** The option `application` of the module; default: the name in the nearest `package.json`, or the title of the process. */
  readonly application: string;
  /** The name of its machine, which is the name of the pod on Kubernetes. */
  readonly host: string;
  /** The id of the process on its host. */
  readonly process: number;
  /** When the client was made, by the clock of its machine. */
  readonly since: Date;
}

/**
 * An owner that holds a lock, as far as it is known who that is. The names are missing for a holder of less than a second, for
 * one of another library or with `application: false`, and in a store that keeps no introductions. Another process knows `site` and
 * `heldMs` of up to 200 locks of a process that others wait for, and of the 20 others that are held longest.
 */
export interface LockHolder {
  /** Names the owner in the store. */
  readonly owner: string;
  readonly client?: LockClient;
  /** The method that acquired the lock, the option `site` of its call, or the line that called `acquire`. */
  readonly site?: string;
  /** How long the caller has held the lock, in ms. The clocks of two machines are compared, so it is not exact. */
  readonly heldMs?: number;
}
