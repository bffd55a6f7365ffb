import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { until } from '#until';
import { elapsed, holdAndWait } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { ownEtcd } from './support/own-etcd.js';

describeWith('etcd')('what etcd has, and no living process', () => {
  const etcd = ownEtcd();

  it('is swept by the first of all sessions, unless somebody waits for it', async () => {
    const documents = async () =>
      (await etcd.list('l/')).map(({ key }) => key.slice(`${etcd.root}l/`.length));
    const gone = JSON.stringify([1, 0, [['a:1', 'l', 1, 1, '+30000', null, 0, 'dead']], []]);
    const keys = Array.from({ length: 250 }, (_, i) => `${etcd.key}:${String(i).padStart(3, '0')}`);
    for (const key of keys) await etcd.gateway.put(`${etcd.root}l/${key}`, gone);
    const ahead = `${etcd.key}:ahead`;
    await etcd.gateway.put(`${etcd.root}l/${ahead}`, '[1,9000000000,[],[]]');
    const foreign = `${etcd.key}:foreign`;
    await etcd.gateway.put(`${etcd.root}l/${foreign}`, '[7]');
    const waited = keys[7] as string;
    await etcd.gateway.put(`${etcd.root}q/${waited}\0n`, '');
    const service = await etcd.openReady();
    const held = `${etcd.key}:held`;
    const lock = await service.acquire(held);
    const all = await documents();
    await etcd.sweep(undefined);
    await etcd.sweep('f'.repeat(20));
    expect(await documents()).toEqual(all);
    await etcd.sweep('first');
    expect(await documents()).toEqual([waited, ahead, foreign, held].sort());
    expect(await lock.release()).toBe('released');
  });

  it('is told to the processes that live on, from the first message after a restore', async () => {
    const holder = await etcd.openReady();
    const service = await etcd.openReady();
    const data = join(etcd.server.folder, 'data');
    const earlier = join(etcd.server.folder, 'earlier');
    await etcd.server.kill();
    await cp(data, earlier, { recursive: true });
    await etcd.server.restart();
    const handOff = async () => {
      const { lock, waiting: next } = await holdAndWait(holder, service, etcd.key);
      await lock.release();
      const ms = await elapsed(next);
      await (await next).release();
      return ms;
    };
    for (let i = 0; i < 20; i++) await handOff();
    await etcd.server.kill();
    await rm(data, { recursive: true });
    await cp(earlier, data, { recursive: true });
    await etcd.server.restart();
    await until(() => handOff().then(() => true));
    const times: number[] = [];
    for (let i = 0; i < 9; i++) times.push(await handOff());
    // A recheck would take half a second on average.
    expect(times.toSorted((a, b) => a - b)[4]).toBeLessThan(300);
  });
});
