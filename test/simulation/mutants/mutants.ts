import { CONFIG_MUTANTS } from './config-mutants.js';
import { CORE_MUTANTS } from './core-mutants.js';
import { DOCUMENT_MUTANTS } from './document-mutants.js';
import { ETCD_MUTANTS } from './etcd-mutants.js';
import { FOREIGN_MUTANTS } from './foreign-mutants.js';
import { LEADER_MUTANTS } from './leader-mutants.js';
import { LOCKED_MUTANTS } from './locked-mutants.js';
import type { Mutant } from './mutant.js';
import { ONCE_MUTANTS } from './once-mutants.js';
import { QUORUM_MUTANTS } from './quorum-mutants.js';
import { REDIS_MUTANTS } from './redis-mutants.js';
import { SESSION_MUTANTS } from './session-mutants.js';
import { ZOOKEEPER_MUTANTS } from './zookeeper-mutants.js';

export const MUTANTS: readonly Mutant[] = [
  ...CORE_MUTANTS,
  ...CONFIG_MUTANTS,
  ...LEADER_MUTANTS,
  ...LOCKED_MUTANTS,
  ...ONCE_MUTANTS,
  ...DOCUMENT_MUTANTS,
  ...REDIS_MUTANTS,
  ...QUORUM_MUTANTS,
  ...SESSION_MUTANTS,
  ...ETCD_MUTANTS,
  ...ZOOKEEPER_MUTANTS,
  ...FOREIGN_MUTANTS,
];
