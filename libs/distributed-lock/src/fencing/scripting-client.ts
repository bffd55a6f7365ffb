/** The part of a client of ioredis that is used: of a `Redis` or a `Cluster`. You close it. */
export interface ScriptingClient {
  /** Runs a Lua script. */
  eval(script: string, numberOfKeys: number, ...args: (string | number | Buffer)[]): Promise<unknown>;
}

/** The part of a client of node-redis that is used: of one server, of Sentinels, of a cluster or of a pool. You close it. */
export interface NodeRedisScriptingClient {
  /** Whether it has connected. All clients of node-redis have it, and those of ioredis do not. */
  readonly isOpen: boolean;
  /** Runs a Lua script. */
  eval(script: string, given: { keys: string[]; arguments: (string | Buffer)[] }): Promise<unknown>;
}

type Evaluate = (
  script: string,
  keys: readonly string[],
  args: readonly (string | number | Buffer)[],
) => Promise<unknown>;

/** How `client` runs a script. */
export function evaluateBy(client: ScriptingClient | NodeRedisScriptingClient): Evaluate {
  if (!('isOpen' in client))
    return (script, keys, args) => client.eval(script, keys.length, ...keys, ...args);
  const asWord = (arg: string | number | Buffer) => (typeof arg === 'number' ? String(arg) : arg);
  return (script, keys, args) => client.eval(script, { keys: [...keys], arguments: args.map(asWord) });
}
