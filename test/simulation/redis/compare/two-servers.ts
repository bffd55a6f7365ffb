import assert from 'node:assert/strict';
import { RedisServer } from '../server/redis-server.js';
import type { ServerClient } from '../server/server-client.js';
import { request } from '../resp/request.js';
import { RealClient } from './real-client.js';
import { endOfReply } from '../resp/end-of-reply.js';
import type { Stepped } from './script-steps.js';
import { difference, differenceInAnyOrder } from './same-bytes.js';

/** On the real server each key gets the expiry that it has in the model. */
const SET_EXPIRIES = `for i, key in ipairs(KEYS) do
  if ARGV[i] == '' then redis.call('DEL', key) else redis.call('PEXPIRE', key, ARGV[i]) end
end`;
/** No key expires on the real server while one command runs. */
const MIN_MS = 400;

interface Pair {
  readonly model: ServerClient;
  readonly real: RealClient;
  written: string;
}

/** The model and a real server that are sent the same, and must write the same. The model's clock belongs to the test. */
export class TwoServers implements Stepped {
  readonly pinned = true;
  micros = 1_700_000_000_000_000;
  readonly model = new RedisServer({
    micros: () => this.micros,
    newRunId: () => '0'.repeat(40),
    after: () => () => undefined,
  });
  private readonly pairs = new Map<number, Pair>();
  private readonly expiring = new Set<string>();
  private readonly history: string[] = [];

  private constructor(
    private readonly port: number,
    private readonly admin: RealClient,
  ) {}

  /** @param port of the real server, whose data is deleted */
  static async on(port: number): Promise<TwoServers> {
    const admin = await RealClient.to(port);
    await admin.send(['FLUSHALL']);
    await admin.send(['SCRIPT', 'FLUSH']);
    const servers = new TwoServers(port, admin);
    await servers.setOutOfMemory(false);
    await servers.allowAll();
    return servers;
  }

  /** Lets time pass, and a little more where a key would expire in this very ms: a real server cannot be stopped then. */
  pass(micros: number): void {
    this.micros += micros;
    const { data } = this.model;
    const isExpiring = (key: string): boolean => {
      const { expiresAt = Infinity } = data.find(key) ?? {};
      return expiresAt - this.micros / 1000 < 2;
    };
    while ([...this.expiring].some(isExpiring)) this.micros += 3000;
  }

  /** @returns what both have written to this client */
  async send(client: number, words: readonly string[]): Promise<string> {
    await this.setExpiries();
    const { model, real } = this.pairs.get(client) ?? (await this.connect(client));
    model.receive(request(words));
    real.write(words);
    let reply = '';
    // Other clients may have been sent a message.
    for (const [other, pair] of this.pairs) {
      const written = await this.compareWritten(pair);
      if (other === client) reply = written;
    }
    this.history.push(`${client}: ${words.join(' ').slice(0, 300)} -> ${JSON.stringify(reply)}`);
    this.noteKeys();
    return reply;
  }

  private async compareWritten(pair: Pair): Promise<string> {
    const ours = pair.written;
    pair.written = '';
    const theirs = await pair.real.read(countReplies(ours));
    this.expectNone(difference(ours, theirs));
    return theirs;
  }

  /** The client closes its connection. */
  async leave(client: number): Promise<void> {
    const pair = this.pairs.get(client);
    if (!pair) return;
    this.pairs.delete(client);
    this.model.disconnect(pair.model);
    await pair.real.quit();
  }

  async setOutOfMemory(isOutOfMemory: boolean): Promise<void> {
    this.model.refusals.isOutOfMemory = isOutOfMemory;
    await this.admin.send(['CONFIG', 'SET', 'maxmemory', isOutOfMemory ? '1' : '0']);
  }

  /** From now on all may run every command but this one. */
  async deny(command: string): Promise<void> {
    const { denied } = this.model.refusals;
    denied.clear();
    denied.add(command);
    await this.admin.send(['ACL', 'SETUSER', 'default', '+@all', `-${command}`]);
  }

  async allowAll(): Promise<void> {
    this.model.refusals.denied.clear();
    await this.admin.send(['ACL', 'SETUSER', 'default', '+@all']);
  }

  /** Compares every key, and nobody may have been sent anything more. */
  async compareAll(): Promise<void> {
    for (const client of this.pairs.keys()) await this.send(client, ['PING']);
    for (const key of [...this.expiring].sort()) await this.compareKey(key);
  }

  close(): void {
    for (const { real } of this.pairs.values()) real.close();
    this.admin.close();
  }

  private async compareKey(key: string): Promise<void> {
    await this.setExpiries();
    const type = (await this.admin.send(['TYPE', key])).trim().slice(1);
    const read = {
      string: ['GET', key],
      hash: ['HGETALL', key],
      zset: ['ZRANGE', key, '0', '-1', 'WITHSCORES'],
    }[type];
    for (const words of [['TYPE', key], ['PTTL', key], ...(read ? [read] : [])]) {
      let ours = '';
      this.model
        .connect(
          (bytes) => (ours += bytes),
          () => undefined,
        )
        .receive(request(words));
      const theirs = await this.admin.send(words);
      const compare = words[0] === 'HGETALL' ? differenceInAnyOrder : difference;
      this.expectNone(compare(ours, theirs), words.join(' '));
    }
  }

  private async connect(client: number): Promise<Pair> {
    const real = await RealClient.to(this.port);
    const pair = { real, written: '' } as Pair & { model: ServerClient };
    pair.model = this.model.connect(
      (bytes) => (pair.written += bytes),
      () => undefined,
    );
    this.pairs.set(client, pair);
    return pair;
  }

  private noteKeys(): void {
    for (const key of this.model.data.keys()) this.expiring.add(key);
  }

  private async setExpiries(): Promise<void> {
    const { data } = this.model;
    const now = Math.floor(this.micros / 1000);
    const due: [key: string, ms: string][] = [];
    for (const key of this.expiring) {
      const entry = data.find(key);
      if (!entry) due.push([key, '']);
      else if (entry.expiresAt !== undefined)
        due.push([key, String(Math.max(MIN_MS, entry.expiresAt - now))]);
    }
    if (due.length === 0) return;
    const [keys, args] = [due.map(([key]) => key), due.map(([, ms]) => ms)];
    await this.admin.send(['EVAL', SET_EXPIRIES, String(keys.length), ...keys, ...args]);
  }

  private expectNone(found: string | undefined, what = ''): void {
    assert.equal(found, undefined, `${what} ${found}\n${this.history.slice(-30).join('\n')}`);
  }
}

function countReplies(bytes: string): number {
  let count = 0;
  for (let at: number | undefined = 0; at !== undefined && at < bytes.length; count++) {
    at = endOfReply(bytes, at);
  }
  return count;
}

/** A hash has no order that one may rely on. */
