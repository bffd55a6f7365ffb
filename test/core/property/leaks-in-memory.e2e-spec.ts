import { memoryStore } from 'nestjs-distributed-lock';
import { describeNoLeaks } from './no-leaks.js';

describeNoLeaks('in memory', { makeStore: () => memoryStore(), callsAtLeast: 2000 });
