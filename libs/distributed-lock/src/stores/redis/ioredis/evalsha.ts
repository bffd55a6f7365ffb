import type { Cluster, Command, Redis } from 'ioredis';
import { findIoredis } from './load-ioredis.js';
import { asBulk, type Arguments, type WireKeys } from '../redis.client.js';

/** `EvalSha` sets its arguments itself, because ioredis would copy and inspect each. */
const NONE: string[] = [];
const OPTIONS = { replyEncoding: 'utf8' } as const;

type EvalShaClass = new (sha: string, keys: WireKeys, args: Arguments) => Command;

/**
 * How `client` runs a script by its hash.
 *
 * @returns `undefined` for a client of another copy of ioredis, which takes only commands of its own
 */
export function evalShaFor(client: Redis | Cluster): EvalShaClass | undefined {
  const ioredis = findIoredis();
  const isKnown = ioredis && (client instanceof ioredis.Redis || client instanceof ioredis.Cluster);
  return isKnown ? evalShaOf(ioredis.Command) : undefined;
}

/** The command that ioredis would make, with a text of our own. */
export function evalShaOf(Base: typeof Command): EvalShaClass {
  return class EvalSha extends Base {
    constructor(
      sha: string,
      private readonly wireKeys: WireKeys,
      args: Arguments,
    ) {
      super('evalsha', NONE, OPTIONS);
      const first = [sha, wireKeys.count];
      // By `concat`: V8 allocates a literal in its old generation if it lives as long as a request (docs/decisions/0012).
      this.args = first.concat(wireKeys.names, args.map(String));
    }

    override toWritable(): string {
      const { wireKeys } = this;
      const args = this.args as string[];
      const [sha = ''] = args;
      let text = `*${args.length + 1}\r\n$7\r\nevalsha\r\n${asBulk(sha)}${wireKeys.text}`;
      for (let i = 2 + wireKeys.names.length; i < args.length; i++) text += asBulk(args[i] as string);
      return text;
    }
  };
}
