// One process of a service: the built package, callers that take locks, and a record of all that happens to them.
// `LockService` comes from the built file that needs no Nest, which takes most of a second to load.
import { setTimeout as pause } from 'node:timers/promises';
import { LockService } from '../../../libs/distributed-lock/dist/shared/core.names.cjs';
import { COMMAND_MS, GRACE_MS } from '../constants.mjs';
import { recordTo } from '../history/recorder.mjs';
import { now } from '../now.mjs';
import { connectToWitness } from '../witness/ask-witness.mjs';
import { sleptFile } from '../folders.mjs';
import { clockThatSleeps } from './clocks.mjs';
import { storeOf } from './stores.mjs';
import { Owners } from './owners.mjs';
import { Traffic } from './traffic.mjs';
import { watchPauses } from './watch-pauses.mjs';

const SAMPLE_EVERY_MS = 1000;
const CONNECT_MS = 3000;
const RETRY_MS = 50;

const settings = JSON.parse(process.argv[2]);
const { app, file, target, witnessPort, traffic } = settings;
const record = recordTo(file, app);
const witness = await connectToWitness(witnessPort);
const onNode = ({ node, isUp, error }) => record('node', { node, isUp, error: error?.message });
const service = new LockService({
  store: await storeOf(target, { commandTimeoutMs: COMMAND_MS, ...traffic.store }, onNode),
  watchdogTimeoutMs: traffic.leaseMs,
  shutdownGraceMs: GRACE_MS,
  ...(traffic.sleeps && { clock: clockThatSleeps(sleptFile(file)) }),
});
const owners = new Owners(service);
const callers = new Traffic({ ...settings, service, owners, witness, record });
const stopWatching = watchPauses(record);
let isClosing = false;

function sample() {
  globalThis.gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  const active = process.getActiveResourcesInfo();
  const count = (name) => active.filter((other) => other === name).length;
  record('sample', { rss, heapUsed, sockets: count('TCPSocketWrap'), timers: count('Timeout') });
}

/** A process that begins beside others may take longer for its first connections than a command may take. */
async function connect() {
  const giveUpAt = now() + CONNECT_MS;
  while (!isClosing && now() < giveUpAt) {
    const isAnswered = await service.inspect('connected').then(
      () => true,
      () => false,
    );
    if (isAnswered) return;
    await pause(RETRY_MS);
  }
}

/** Callers are told and locks given back; then nothing keeps the process alive. */
async function close() {
  isClosing = true;
  clearInterval(sampling);
  const startedAt = now();
  const settled = callers.stop();
  await service.close();
  const tookMs = now() - startedAt;
  await settled;
  stopWatching();
  witness.close();
  record('closed', { tookMs });
}

const sampling = setInterval(sample, SAMPLE_EVERY_MS);
// Without a listener it would end here, as a customer's process does. On record it is a finding, and the trial goes on.
process.on('unhandledRejection', (error) => record('unhandled', { error: String(error?.stack ?? error) }));
process.once('SIGTERM', () => void close());
await connect();
if (!isClosing) callers.start();
record('started');
process.stdout.write('started\n');
