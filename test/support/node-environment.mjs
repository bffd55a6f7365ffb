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
