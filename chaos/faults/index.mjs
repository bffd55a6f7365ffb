import { CLOCK_FAULTS } from './clocks.mjs';
import { CLUSTER_FAULTS } from './cluster.mjs';
import { CONNECTION_FAULTS } from './connections.mjs';
import { DATA_FAULTS } from './data.mjs';
import { LOADS } from './load.mjs';
import { mixes } from './mixed.mjs';
import { NETWORK_FAULTS } from './network.mjs';
import { OPERATOR_FAULTS } from './operator.mjs';
import { PROCESS_FAULTS } from './processes.mjs';
import { QUORUM_FAULTS } from './quorum.mjs';
import { REFUSALS } from './refusals.mjs';
import { SENTINEL_FAULTS } from './sentinel.mjs';
import { SERVER_FAULTS } from './server.mjs';

const SINGLES = [
  ...LOADS,
  ...PROCESS_FAULTS,
  ...SERVER_FAULTS,
  ...OPERATOR_FAULTS,
  ...REFUSALS,
  ...DATA_FAULTS,
  ...CONNECTION_FAULTS,
  ...NETWORK_FAULTS,
  ...CLOCK_FAULTS,
  ...SENTINEL_FAULTS,
  ...CLUSTER_FAULTS,
  ...QUORUM_FAULTS,
];

/** Every kind of fault. @type {readonly import('../index.d.mts').Kind[]} */
export const KINDS = [...SINGLES, ...mixes(SINGLES)];
