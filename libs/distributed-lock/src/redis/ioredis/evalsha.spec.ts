import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from '@jest/globals';
import { Command, Redis } from 'ioredis';
import { WireKeys } from '../client.js';
import { DirectReply, evalShaClassFor } from './evalsha.js';

const EvalSha = evalShaClassFor(new Redis({ lazyConnect: true })) as NonNullable<
  ReturnType<typeof evalShaClassFor>
>;

describe('EVALSHA with keys that are written once', () => {
  it.each([
    ['one key', ['a'], ['x', 1]],
    ['several', ['lock', 'nest_lock_queue:{lock}', 'nest_lock_meta:{lock}'], ['owner', 30_000, 0.5, -1, '']],
    ['more than ASCII', ['schlüssel', '鍵:😀', '\ud800'], ['größe', '"\r\n', 2 ** 53]],
    ['none of either', [], []],
  ])('is to the server what ioredis itself would write: %s', (_, names, args) => {
    const sha = 'f'.repeat(40);
    const theirs = new Command('evalsha', [sha, names.length, ...names, ...args]);
    const ours = new EvalSha(sha, new WireKeys(names), args);
    expect(ours.toWritable({})).toBe(theirs.toWritable({}));
    expect([ours.args, ours.getKeys(), ours.getSlot()]).toEqual([
      theirs.args,
      theirs.getKeys(),
      theirs.getSlot(),
    ]);
  });
});

describe('the reply to EVALSHA', () => {
  const sent = () => new EvalSha('f'.repeat(40), new WireKeys(['a']), []);

  it('is decoded, and reaches its listener in the turn in which it arrives', () => {
    const [command, heard] = [sent(), [] as unknown[]];
    (command.promise as unknown as DirectReply).listen(
      (value) => heard.push(value),
      (error) => heard.push(error),
    );
    command.resolve([1, Buffer.from('größe')]);
    command.reject(new Error('too late'));
    expect(heard).toEqual([[1, 'größe']]);
  });

  it('that comes before its listener is passed on after the turn, so that listeners which send again do not nest', async () => {
    const heard: unknown[] = [];
    const command = sent();
    command.reject(new Error('no connection'));
    (command.promise as unknown as DirectReply).listen(
      (value) => heard.push(value),
      (error) => heard.push((error as Error).message),
    );
    expect(heard).toEqual([]);
    await Promise.resolve();
    expect(heard).toEqual(['no connection']);
  });

  it('is a promise for tools that trace commands, and reaches its listener all the same', async () => {
    const [command, heard] = [sent(), [] as unknown[]];
    const traced = command.promise.then((value) => heard.push(['traced', value]));
    (command.promise as unknown as DirectReply).listen((value) => heard.push(value), fail);
    const awaited = Promise.all([
      Promise.resolve(command.promise),
      traced,
      command.promise.finally(() => heard.push('over')),
    ]);
    command.resolve(7);
    expect(await awaited).toEqual([7, 2, 7]);
    expect(heard).toEqual([7, ['traced', 7], 'over']);
    const refused = sent();
    refused.reject(new Error('NOSCRIPT'));
    expect(await refused.promise.catch((error: Error) => error.message)).toBe('NOSCRIPT');
  });

  it('reaches its listener outside of every async context, of the socket and of the caller', async () => {
    const context = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const command = sent();
    (command.promise as unknown as DirectReply).listen(() => seen.push(context.getStore()), fail);
    context.run('the socket', () => command.resolve(1));
    const settled = sent();
    settled.resolve(2);
    context.run('the caller', () =>
      (settled.promise as unknown as DirectReply).listen(() => seen.push(context.getStore()), fail),
    );
    await Promise.resolve();
    expect(seen).toEqual([undefined, undefined]);
  });
});

function fail(error: unknown): never {
  throw error;
}
