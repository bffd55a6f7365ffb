import { redisStore } from 'nestjs-distributed-lock/redis';
import { createClient } from 'redis';
import { describeBackEndCases } from '../../support/back-end-cases.js';

const store = redisStore(createClient({ url: process.env['REDIS_URL'] as string }), {
  commandTimeoutMs: 5000,
});

describeBackEndCases('redis by node-redis', () => ({ store }));
