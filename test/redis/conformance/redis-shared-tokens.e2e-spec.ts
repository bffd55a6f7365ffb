import { redisStore } from 'nestjs-distributed-lock/redis';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';

const store = redisStore(process.env['REDIS_URL'] as string, { sharedTokens: true });

describeLockStoreContract('redis, with tokens shared with Java', () => ({ store }));
