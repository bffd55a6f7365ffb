// One process on the file argv[2]: it takes the lock again and again, and reports whether another live process was inside.
// `LockService` comes from the built file that needs no Nest, which takes most of a second to load.
import { readlinkSync, rmSync, symlinkSync } from 'node:fs';
import { sqliteStore } from 'nestjs-distributed-lock/sqlite';
import { LockService } from '../../../libs/distributed-lock/dist/shared/core.names.cjs';

const [, , file, inside] = process.argv;
const locks = new LockService({ store: sqliteStore(file), watchdogTimeoutMs: 1500, shutdownGraceMs: 0 });
locks.open();

for (;;) {
  await locks.withLock('key', { waitMs: 30_000 }, async (lock) => {
    enter();
    await new Promise((resolve) => setTimeout(resolve, 2));
    rmSync(inside);
    process.send?.({ token: lock.fencingToken });
  });
}

/** A link is made in one step, with the number of its process. The link of a process that was killed inside stays. */
function enter() {
  try {
    symlinkSync(String(process.pid), inside);
  } catch {
    const other = Number(readlinkSync(inside));
    if (isAlive(other)) process.send?.({ violation: `${process.pid} entered beside ${other}` });
    rmSync(inside, { force: true });
    symlinkSync(String(process.pid), inside);
  }
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
