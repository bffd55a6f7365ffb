import { createHash } from 'node:crypto';
import { Redis } from 'ioredis';

/** One script as the server has executed it. */
export interface ScriptCall {
  readonly sha: string;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly reply: unknown;
}

type Run = (script: string, keyCount: number, ...rest: (string | number)[]) => Promise<unknown>;

/** A client for `redisStore` whose connections note every script that ran. It is never connected itself. */
export function recordedRedis(url: string, calls: ScriptCall[]): Redis {
  const target = new Redis(url, { lazyConnect: true });
  target.duplicate = (options) => {
    const client = new Redis(url, options ?? {});
    const noting = (run: Run, shaOf: (script: string) => string): Run => {
      return async (script, keyCount, ...rest) => {
        const reply = await run(script, keyCount, ...rest);
        const words = rest.map(String);
        calls.push({
          sha: shaOf(script),
          keys: words.slice(0, keyCount),
          args: words.slice(keyCount),
          reply,
        });
        return reply;
      };
    };
    const { evalsha, eval: evaluate } = client as unknown as { evalsha: Run; eval: Run };
    const sha1 = (source: string) => createHash('sha1').update(source).digest('hex');
    return Object.assign(client, {
      evalsha: noting(evalsha.bind(client), (sha) => sha),
      eval: noting(evaluate.bind(client), sha1),
    });
  };
  return target;
}
