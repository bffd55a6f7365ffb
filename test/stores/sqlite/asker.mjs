// One process that asks once for the key argv[3] in the file argv[2], says what it was told, and closes the database.
// `LockService` comes from the built file that needs no Nest, which takes most of a second to load.
import { sqliteStore } from 'nestjs-distributed-lock/sqlite';
import { LockService } from '../../../libs/distributed-lock/dist/shared/core.names.cjs';

const [, , file, key] = process.argv;
const locks = new LockService({ store: sqliteStore(file), shutdownGraceMs: 0 });
locks.open();
const lock = await locks.tryAcquire(key);
await lock?.release();
await locks.close();
process.stdout.write(lock ? 'granted' : 'busy');
