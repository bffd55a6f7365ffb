import { execFile, spawnSync } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  linkSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { sqliteStore } from 'nestjs-distributed-lock/sqlite';
import { until } from '#until';
import { closeServices, failureOf, openServiceOn } from '../../support/lock-services.js';

const ASKER = fileURLToPath(new URL('asker.mjs', import.meta.url));

describe('the file of a SQLite database', () => {
  let folder: string;
  let file: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'sqlite-files-'));
    file = join(folder, 'locks');
  });
  afterEach(async () => {
    await closeServices();
    rmSync(folder, { recursive: true });
  });

  const service = (path = file): LockService => openServiceOn(sqliteStore(path));

  /** Another process asks for the key once and closes the database. Returns what the lock told it: `granted` or `busy`. */
  function askedElsewhere(key: string, path = file): string {
    const flags = ['--disable-warning=ExperimentalWarning'];
    const { stdout, stderr } = spawnSync(process.execPath, [...flags, ASKER, path, key], {
      encoding: 'utf8',
    });
    return stdout.trim() || stderr;
  }

  /** As a second SQLite library does, and each copy of the file: POSIX drops the locks of the whole process. */
  function openAndClose(path: string): void {
    closeSync(openSync(path, 'r'));
  }

  it('the log is deleted because the process has opened and closed the file by itself: no two hold one key', async () => {
    const [holder, other] = [service(), service()];
    await other.withLock('warm', () => undefined);
    const before = await holder.acquire('before');
    openAndClose(file);
    openAndClose(`${file}-shm`);
    // The other process is the last one that SQLite knows of, and deletes the log.
    expect(askedElsewhere('another')).toBe('granted');
    expect(() => statSync(`${file}-wal`)).toThrow('ENOENT');
    const after = await holder.acquire('after');
    expect(askedElsewhere('before')).toBe('busy');
    expect(askedElsewhere('after')).toBe('busy');
    expect([before, after].map(({ signal }) => signal.aborted)).toEqual([false, false]);
    await before.release();
    await after.release();
    expect(askedElsewhere('after')).toBe('granted');
  });

  it('the log is deleted while another service of the process is idle: a lock is had before that one asks again', async () => {
    const [holder, idle] = [service(), service()];
    await idle.withLock('warm', () => undefined);
    const before = await holder.acquire('before');
    const logBirth = () => statSync(`${file}-wal`, { throwIfNoEntry: false })?.birthtimeMs;
    const birth = logBirth();
    openAndClose(file);
    openAndClose(`${file}-shm`);
    const openAndDelete = `const file = new (require('node:sqlite').DatabaseSync)(process.argv[1]);
    file.prepare('SELECT * FROM sqlite_schema').all();
    file.close();`;
    // The event loop goes on, so that no timer of the idle service is due when it ends.
    await promisify(execFile)(process.execPath, ['-e', openAndDelete, file]);
    expect(logBirth()).not.toBe(birth);
    const after = await holder.acquire('after', { waitMs: 10_000 });
    expect([before, after].map(({ signal }) => signal.aborted)).toEqual([false, false]);
    expect(await idle.tryAcquire('before')).toBeNull();
  });

  it('the log is deleted again and again while several services of a process work: they go on, one at a time', async () => {
    // Each of them starts a process while it holds, which a busy machine takes seconds for.
    const services = [service(), service(), service()];
    let inside = 0;
    for (let round = 0; round < 2; round++) {
      openAndClose(file);
      openAndClose(`${file}-shm`);
      askedElsewhere('another');
      await Promise.all(
        services.map((each) =>
          each.withLock('key', { waitMs: 60_000 }, async () => {
            expect(++inside).toBe(1);
            expect(askedElsewhere('key')).toBe('busy');
            inside -= 1;
          }),
        ),
      );
    }
  }, 150_000);

  it('a connection that ends because its log was deleted leaves the log of the others alone', async () => {
    const holder = service();
    await holder.withLock('key', () => undefined);
    openAndClose(file);
    openAndClose(`${file}-shm`);
    askedElsewhere('another');
    const other = openServiceOn(sqliteStore(file));
    const lock = await other.acquire('other', { waitMs: 15_000 });
    await (await holder.acquire('key', { waitMs: 15_000 })).release();
    expect(askedElsewhere('other')).toBe('busy');
    expect(lock.signal.aborted).toBe(false);
    await lock.release();
  }, 40_000);

  it.each([
    ['is deleted', () => ['', '-wal', '-shm'].forEach((end) => unlinkSync(`${file}${end}`))],
    [
      'is moved away',
      () => ['', '-wal', '-shm'].forEach((end) => renameSync(`${file}${end}`, `${file}-old${end}`)),
    ],
    [
      'is restored from a copy',
      () => {
        copyFileSync(file, `${file}-copy`);
        ['-wal', '-shm'].forEach((end) => unlinkSync(`${file}${end}`));
        renameSync(`${file}-copy`, file);
      },
    ],
  ])('the file %s: the holder is told, and the next lock is in the new file', async (_title, replace) => {
    const holder = service();
    const lock = await holder.acquire('key');
    replace();
    await until(() => lock.signal.aborted);
    const again = await holder.acquire('key', { waitMs: 5000 });
    expect(askedElsewhere('key')).toBe('busy');
    await again.release();
  });

  it('a link to the file is as good as its name, until it leads elsewhere', async () => {
    const link = join(folder, 'link');
    symlinkSync(file, link);
    const lock = await service(link).acquire('key');
    expect(askedElsewhere('key')).toBe('busy');
    unlinkSync(link);
    symlinkSync(join(folder, 'elsewhere'), link);
    await until(() => lock.signal.aborted);
    expect(askedElsewhere('key', link)).toBe('granted');
  });

  it('a file with two names is refused, because each name has a log of its own', async () => {
    await service().withLock('key', () => undefined);
    linkSync(file, `${file}-too`);
    const failure = await failureOf(service(`${file}-too`).acquire('key', { waitMs: 0 }));
    expect(failure).toMatchObject({
      code: 'LOCK_CONFIGURATION',
      message: expect.stringContaining('2 names (hard links)'),
    });
  });

  it('a path that is relative means the same file after the process has changed its directory', async () => {
    const before = process.cwd();
    try {
      process.chdir(folder);
      const store = sqliteStore('locks');
      process.chdir(before);
      await openServiceOn(store).withLock('key', () => undefined);
      expect(statSync(file).isFile()).toBe(true);
    } finally {
      process.chdir(before);
    }
  });
});
