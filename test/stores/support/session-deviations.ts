import type { ContractDeviations } from 'nestjs-distributed-lock/testing';

/** What etcdStore and zookeeperStore do not do. */
export const deviations: ContractDeviations = {
  'what a client tells of itself is read by the others as it was written, until its lease is over':
    'the store keeps no entry for a client',
  'keys that are held or waited for are listed in pages, as inspect tells of them, and no others':
    'the store looks for no keys: ask it for one, or each process for what it holds',
};
