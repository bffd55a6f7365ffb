import { redisStore } from 'nestjs-distributed-lock/redis';
import { describeBackEndCases } from '../../support/back-end-cases.js';
import { PATIENT } from '../../support/patient.js';

const store = redisStore(process.env['REDIS_URL'] as string, { sharedTokens: true, ...PATIENT });

describeBackEndCases('redis, with tokens shared with Java', () => ({ store }));
