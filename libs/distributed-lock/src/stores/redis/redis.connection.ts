import type { Cluster, Redis } from 'ioredis';
import type { Writable } from 'node:stream';
import type { Clock } from '../../lock/clock.js';
import { conceal } from '../../lock/conceal.js';
