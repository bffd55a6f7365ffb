import { redisStore } from 'nestjs-distributed-lock/redis';
import { describeBackEndCases } from '../../support/back-end-cases.js';

const store = redisStore(process.env['REDIS_URL'] as string, { sharedTokens: true, commandTimeoutMs: 5000 });

describeBackEndCases('redis, with tokens shared with Java', () => ({ store }));
