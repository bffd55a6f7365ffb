import { redisStore } from 'nestjs-distributed-lock/redis';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';

// Whether a reply comes soon is not what the contract asks.
const store = redisStore(process.env['REDIS_URL'] as string, { commandTimeoutMs: 5000 });

describeLockStoreContract('redis', () => ({ store }));
