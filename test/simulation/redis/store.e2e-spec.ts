import { randomBytes } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { describeLockStoreContract, ManualClock } from 'nestjs-distributed-lock/testing';
import { RedisServer } from './server/redis-server.js';
import type { Line, LineEvents } from './socket/line.js';
import { simulatedTarget } from './socket/connector.js';

/** How many turns of the event loop a command, its reply and what follows from them take. */
const TURNS = 12;

/** Moves the client and the server alike, so that a busy machine does not let a lease run out. */
class SharedClock extends ManualClock {
  override async settle(): Promise<void> {
    for (let i = 0; i < TURNS; i += 1) await turn();
  }
}

const clock = new SharedClock();
const startedAt = Date.now();
const server = new RedisServer({
  micros: () => Math.floor((startedAt + clock.now()) * 1000),
  newRunId: () => randomBytes(20).toString('hex'),
  after: (ms, run) => clock.after(ms, run),
});

/** A connection without any fault. */
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

describeLockStoreContract(
  'redis, simulated',
  () => ({
    store: redisStore(simulatedTarget('simulated', line)),
    clock,
    pass: (ms) => clock.advance(ms),
  }),
  {
    'keys that are held or waited for are listed in pages, as inspect tells of them, and no others':
      'the simulated server has no SCAN',
    'a prefix or a cursor that no key can have lists nothing, or is refused as such a key is':
      'the simulated server has no SCAN',
  },
);
