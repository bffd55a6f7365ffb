import { Cluster, Command, Redis } from 'ioredis';
import { asBulk, type Arguments, type WireKeys } from '../redis.client.js';

/** Runs a script by its hash. */
export function evalSha(
  client: Redis | Cluster,
  sha: string,
  keys: WireKeys,
  args: Arguments,
): Promise<unknown> {
  // A client of another copy of ioredis has commands of its own.
  const isKnown = client instanceof Redis || client instanceof Cluster;
  if (!isKnown) return (client as Redis).evalsha(sha, keys.names.length, ...keys.names, ...args);
  return client.sendCommand(new EvalSha(sha, keys, args)) as Promise<unknown>;
}

/** `EvalSha` sets its arguments itself, because ioredis would copy and inspect each. */
const NONE: string[] = [];
const OPTIONS = { replyEncoding: 'utf8' } as const;

/** The command that ioredis would make, with a text of our own. */
export class EvalSha extends Command {
  constructor(
    sha: string,
    private readonly wireKeys: WireKeys,
    args: Arguments,
  ) {
    super('evalsha', NONE, OPTIONS);
    const first = [sha, String(wireKeys.names.length)];
    // Copied: V8 would allocate a literal that lives as long as a request in its old generation (docs/decisions/0012).
    this.args = first.concat(wireKeys.names, args.map(String));
  }

  override toWritable(): string {
    const { wireKeys } = this;
    const args = this.args as string[];
    const [sha = '', count = ''] = args;
    let text = `*${args.length + 1}\r\n$7\r\nevalsha\r\n${asBulk(sha)}${asBulk(count)}${wireKeys.text}`;
    for (let i = 2 + wireKeys.names.length; i < args.length; i++) text += asBulk(args[i] as string);
    return text;
  }
}
