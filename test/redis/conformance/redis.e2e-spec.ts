import { redisStore } from 'nestjs-distributed-lock/redis';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';
import { PATIENT } from '../../support/patient.js';

const store = redisStore(process.env['REDIS_URL'] as string, PATIENT);

describeLockStoreContract('redis', () => ({ store }));
