// Leader election: docs/recipes/workers.md#leader-election. Why it is a lock: docs/decisions/0024-a-leader-is-a-lock.md
export { LeaderModule } from './leader.module.js';
export type { LeaderOptions } from './leader.js';
export { InjectLeader, getLeaderToken } from './leader.js';
export type { Leader, Term } from './leader.js';
export { OnDemoted, OnElected } from './on-elected.decorator.js';
export { OnlyLeader } from './on-elected.decorator.js';
export { CurrentTerm } from './on-elected.decorator.js';
