import { redisStore } from 'nestjs-distributed-lock/redis';
import { createClient } from 'redis';
import { describeBackEndCases } from '../../support/back-end-cases.js';
import { PATIENT } from '../../support/patient.js';

const store = redisStore(createClient({ url: process.env['REDIS_URL'] as string }), PATIENT);

describeBackEndCases('redis by node-redis', () => ({ store }));
