import { redisStore } from 'nestjs-distributed-lock/redis';
import { ownRedis } from '../../support/own-redis.js';
import { describeNoLeaks } from './no-leaks.js';

const redis = ownRedis('leak');
describeNoLeaks('on Redis', { makeStore: () => redisStore(redis.url), callsAtLeast: 1000 });
