import { createHash } from 'node:crypto';
import { Redis, type Command } from 'ioredis';

/** One script as the server has executed it. */
export interface ScriptCall {
  readonly sha: string;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly reply: unknown;
}

/** The options of a script: the argument that is JSON, after two flags in some. */
export function optionsOf(args: readonly string[]): Record<string, unknown> {
  const text = args.find((arg) => /^([p-][s-])?\{/.test(arg)) ?? '{}';
  return JSON.parse(text.slice(text.indexOf('{'))) as Record<string, unknown>;
}

/** A client for `redisStore` whose connections note every script that ran. It is never connected itself. */
export function recordedRedis(url: string, calls: ScriptCall[]): Redis {
  const target = new Redis(url, { lazyConnect: true });
  target.duplicate = (options) => {
    const client = new Redis(url, options ?? {});
    const send = client.sendCommand.bind(client);
    client.sendCommand = (command, stream) => {
      const isScript = command.name === 'evalsha' || command.name === 'eval';
      return isScript ? noted(command, send(command, stream) as Promise<unknown>) : send(command, stream);
    };
    return client;
  };
  const noted = async (command: Command, answer: Promise<unknown>): Promise<unknown> => {
    const reply = await answer;
    const [script = '', count, ...rest] = command.args.map(String);
    const sha = command.name === 'evalsha' ? script : createHash('sha1').update(script).digest('hex');
    calls.push({ sha, keys: rest.slice(0, Number(count)), args: rest.slice(Number(count)), reply });
    return reply;
  };
  return target;
}
