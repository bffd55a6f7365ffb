// Leader election: docs/recipes/workers.md#leader-election. Why it is a lock: docs/decisions/0024-a-leader-is-a-lock.md
export { LeaderModule } from './leader.module.js';
export type { LeaderOptions } from './leader.options.js';
export { InjectLeader, getLeaderToken } from './leader.tokens.js';
export type { Leader, Term } from './leader.js';
export { OnDemoted, OnElected } from './on-elected.decorator.js';
export { OnlyLeader } from './only-leader.decorator.js';
export { CurrentTerm } from './current-term.decorator.js';
