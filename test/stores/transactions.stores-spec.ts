import 'reflect-metadata';
import { startPostgresServer } from '#postgres-server';
import { describeFencedTransactions } from '../fencing/support/fenced-transactions.contract.js';
import { describeHeldUntilCommit } from '../fencing/support/held-until-commit.contract.js';
import { openTransactions as openOwn } from '../fencing/support/open-transactions.js';
import { openTransactions } from './orms/open-transactions.js';
import { describeWith } from './support/describe-with.js';
import { ownServer } from '../support/own-server.js';

/** A transaction that waits for itself is ended, so that the tests after it can run. */
const settings = { lock_timeout: '3s', idle_in_transaction_session_timeout: '3s' };

describeWith('postgres')('on a real Postgres,', () => {
  const server = ownServer(() => startPostgresServer({ settings }));

  for (const [name, open] of Object.entries({ ...openOwn, ...openTransactions })) {
    describeFencedTransactions(name, () => ({ url: server.url, interleaves: true }), open);
    describeHeldUntilCommit(name, () => server.url, open);
  }
});
