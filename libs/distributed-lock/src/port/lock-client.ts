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
