import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, ownServerOn } from '../own-server/index.mjs';
import { PeerLinks } from '../peer-links/index.mjs';
import { until } from '../until/index.mjs';

const ATTEMPTS = 5;
const HEALTHY_WITHIN_MS = 30_000;

/** @type {import('./index.d.mts').startOwnCluster} */
export async function startOwnCluster(options) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await startOnce(options);
    } catch (error) {
      // Another server may have taken one of the ports in between.
      if (attempt === ATTEMPTS) throw error;
    }
  }
}

async function startOnce(options) {
  const places = await choosePlaces(options);
  const links = new PeerLinks();
  const members = [];
  let stopped;
  const stop = () => (stopped ??= stopAll(members, places, links));
  try {
    const routes = await options.connect(links, places);
    const run = (place) => options.run(place, places, routes);
    const starts = places.map(async (place, i) => {
      members[i] = await startMember(options, place, () => run(place));
    });
    const failed = (await Promise.allSettled(starts)).find(({ status }) => status === 'rejected');
    if (failed) throw failed.reason;
    const cluster = clusterOf(members, links, stop);
    await cluster.untilHealthy();
    return cluster;
  } catch (error) {
    await stop();
    throw error;
  }
}

async function stopAll(members, places, links) {
  await Promise.all(members.filter(Boolean).map((member) => member.stop()));
  await Promise.all(places.map(({ folder }) => rm(folder, { recursive: true, force: true })));
  await links.close();
}

async function choosePlaces({ name, size, portNames }) {
  const taken = new Set();
  const newPort = async () => {
    for (;;) {
      const port = await freePort();
      if (!taken.has(port)) return taken.add(port) && port;
    }
  };
  const places = [];
  for (let id = 1; id <= size; id++) {
    const ports = {};
    for (const portName of ['client', ...portNames]) ports[portName] = await newPort();
    places.push({ id, ports, folder: await mkdtemp(join(tmpdir(), `${name}-`)) });
  }
  return places;
}

/** @returns {Promise<import('./index.d.mts').Member>} */
async function startMember({ size, urlOn, isHealthy, isLeader }, place, run) {
  const { folder, id, ports } = place;
  const start = async () => {
    const running = await run();
    // A member of several is healthy only while the majority runs, which a restart must not wait for.
    if (size === 1) await until(() => isHealthy(place), HEALTHY_WITHIN_MS);
    return running;
  };
  const url = urlOn(ports.client);
  const server = ownServerOn({ port: ports.client, url, folder, running: await start(), start });
  return { ...server, id, isHealthy: () => isHealthy(place), isLeader: () => isLeader(place) };
}

/** @returns {import('./index.d.mts').OwnCluster} */
function clusterOf(members, links, stop) {
  return {
    members,
    links,
    async leader() {
      let leader;
      await until(async () => {
        const [one, ...others] = await which(members, (member) => member.isLeader());
        // Two while a leader that was cut off has not yet noticed that it lost the majority.
        leader = others.length === 0 ? one : undefined;
        return leader !== undefined && leader.isHealthy();
      });
      return leader;
    },
    untilHealthy: () =>
      until(
        async () => (await which(members, (member) => member.isHealthy())).length === members.length,
        HEALTHY_WITHIN_MS,
      ),
    stop,
  };
}

/** Those of whom it is true now; a member that does not answer is not among them. */
async function which(members, isTrue) {
  const answers = await Promise.all(members.map((member) => isTrue(member).catch(() => false)));
  return members.filter((_, i) => answers[i]);
}
