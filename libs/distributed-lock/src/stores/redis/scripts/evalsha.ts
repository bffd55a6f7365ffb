import { Cluster, Command, Redis } from 'ioredis';
import type { Client } from '../connection/redis.command.js';

export type Arguments = readonly (string | number)[];

/**
 * The names of a lock's keys, and their text in RESP.
 *
 * ioredis copies and writes each argument of each command. The text of the keys is written once instead, which saves
 * some 7 % of the client's CPU (`npm run bench -- --only spread`).
 */
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

/** A bulk string in RESP: the length in bytes, and the text. */
function asBulk(text: string): string {
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
}
