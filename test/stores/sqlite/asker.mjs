// One process that asks once for the key argv[3] in the file argv[2], says what it was told, and closes the database.
import { LockService } from 'nestjs-distributed-lock';
import { sqliteStore } from 'nestjs-distributed-lock/sqlite';

const [, , file, key] = process.argv;
const locks = new LockService({ store: sqliteStore(file), shutdownGraceMs: 0 });
locks.open();
const lock = await locks.tryAcquire(key);
await lock?.release();
await locks.close();
process.stdout.write(lock ? 'granted' : 'busy');
