import { Cluster, Command, Redis } from 'ioredis';
import type { Client } from '../connection/redis.command.js';

export type Arguments = readonly (string | number)[];

/** Names of keys, also as they go over the wire: made once for what is asked for again and again. */
export class WireKeys {
  readonly text: string;

  constructor(readonly names: readonly string[]) {
    this.text = names.map(asBulk).join('');
  }
}

/** Runs a script by its hash. */
export function evalSha(client: Client, sha: string, keys: WireKeys, args: Arguments): Promise<unknown> {
  // A client of another copy of ioredis has commands of its own.
  const isKnown = client instanceof Redis || client instanceof Cluster;
  if (!isKnown) return (client as Redis).evalsha(sha, keys.names.length, ...keys.names, ...args);
  return client.sendCommand(new EvalSha(sha, keys, args)) as Promise<unknown>;
}

/** Arguments are set later: ioredis would copy them, and look at each. */
const NONE: string[] = [];
const OPTIONS = { replyEncoding: 'utf8' } as const;

/** What ioredis makes of EVALSHA, but for its text: the keys are half of it, and are not written anew each time. */
export class EvalSha extends Command {
  constructor(
    sha: string,
    private readonly wireKeys: WireKeys,
    args: Arguments,
  ) {
    super('evalsha', NONE, OPTIONS);
    this.args = [sha, String(wireKeys.names.length), ...wireKeys.names, ...args.map(String)];
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

/** RESP's bulk string: its length in bytes, and what it says. */
function asBulk(text: string): string {
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
}
