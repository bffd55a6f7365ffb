// As Jest's own environment. It also disables what a suite has left enabled: on Node 20 and 22 each AsyncLocalStorage that was
// ever used slows down every promise of the process, and keeps the whole suite in memory.
import { AsyncLocalStorage } from 'node:async_hooks';
import { TestEnvironment } from 'jest-environment-node';

const used = new Set();
const { _enable: enable } = AsyncLocalStorage.prototype;
if (enable !== undefined) {
  AsyncLocalStorage.prototype._enable = function () {
    used.add(this);
    return enable.call(this);
  };
}

export default class NodeEnvironment extends TestEnvironment {
  async teardown() {
    for (const storage of used) storage.disable();
    used.clear();
    await super.teardown();
  }
}

// A worker of Jest whose event loop is empty ends here, without giving its heap back piece by piece: beside load that takes longer than
// the 500 ms after which Jest says "failed to exit gracefully". A worker with something left open still does not come here.
if (process.send !== undefined) process.once('beforeExit', () => process.exit());
