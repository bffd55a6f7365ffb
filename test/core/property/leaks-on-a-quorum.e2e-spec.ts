import { memoryStore } from 'nestjs-distributed-lock';
import { quorumStore } from 'nestjs-distributed-lock/quorum';
import { describeNoLeaks } from './no-leaks.js';

// Fewer, as each asks three nodes: what a quorum kept of a call was 4.5 kB.
const makeStore = () => quorumStore([memoryStore(), memoryStore(), memoryStore()]);
describeNoLeaks('on a quorum', { makeStore, callsAtLeast: 300 });
