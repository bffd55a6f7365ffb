import { randomBytes } from 'node:crypto';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';
import { RedisServer } from './server/redis-server.js';
import type { Line, LineEvents } from './socket/line.js';
import { simulatedTarget } from './socket/connector.js';

const server = new RedisServer({
  micros: () => Math.floor((performance.timeOrigin + performance.now()) * 1000),
  newRunId: () => randomBytes(20).toString('hex'),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
});

/** A connection without any fault, on real timers. */
function line(): Line {
  let events: LineEvents | undefined;
  const client = server.connect(
    (bytes) => setImmediate(() => events?.onData(bytes)),
    () => setImmediate(() => events?.onEnd()),
  );
  const close = (): void => {
    events = undefined;
    server.disconnect(client);
  };
  return {
    open: (its) => {
      events = its;
      setImmediate(() => events?.onConnect());
    },
    write: (bytes) => setImmediate(() => events && client.receive(bytes)),
    end: () => setImmediate(() => events?.onEnd()),
    destroy: close,
  };
}

describeLockStoreContract('redis, simulated', () => ({
  store: redisStore(simulatedTarget('simulated', line)),
}));
