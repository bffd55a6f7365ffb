import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startOwnCluster } from '../own-cluster/index.mjs';
import { isListening, runUntilReady } from '../own-server/index.mjs';
import { findEtcdServer } from './find-etcd-server.mjs';

const SETTINGS = {
  'initial-cluster-state': 'new',
  logger: 'zap',
  'log-level': 'warn',
  // The default since etcd 3.5: without it a member that was cut off deposes the leader when it comes back.
  'pre-vote': 'true',
};
const ANSWER_MS = 1_000;

/** @type {import('./index.d.mts').startEtcdServer} */
export async function startEtcdServer(options) {
  const { members } = await startEtcdCluster(1, options);
  return members[0];
}

/** @type {import('./index.d.mts').startEtcdCluster} */
export async function startEtcdCluster(size = 3, options = {}) {
  const found = findEtcdServer();
  const how = { ...found, env: { ...found.env, ...options.env } };
  const scheme = options.tls ? 'https' : 'http';
  return startOwnCluster({
    name: 'etcd-server',
    size,
    // Health and leadership are asked for where neither TLS nor a password is needed.
    portNames: ['peer', 'metrics'],
    urlOn: (port) => `${scheme}://127.0.0.1:${port}`,
    connect,
    run: (place, places, peerPorts) => run(how, { place, places, peerPorts, scheme, ...options }),
    isHealthy: async (place) => (await ask(place, 'health')).includes('"true"'),
    isLeader: async (place) => /^etcd_server_is_leader 1$/m.test(await ask(place, 'metrics')),
  });
}

/**
 * One proxy before each member, at the address under which the others know it. A member that connects names its own
 * address in the header of each request.
 *
 * @returns {Promise<number[]>} the port of each proxy
 */
async function connect(links, places) {
  if (places.length === 1) return [places[0].ports.peer];
  const peerPorts = [];
  const from = (chunk) => {
    const port = Number(/^x-peerurls: http:\/\/127\.0\.0\.1:(\d+)/im.exec(chunk.toString('latin1'))?.[1]);
    const index = peerPorts.indexOf(port);
    return index < 0 ? undefined : places[index].id;
  };
  for (const { id, ports } of places) peerPorts.push((await links.before(ports.peer, { to: id, from })).port);
  return peerPorts;
}

/** @param {import('./index.d.mts').EtcdCommand} how */
async function run({ command, env }, { place, places, peerPorts, scheme, settings = {}, tls }) {
  const { folder, id, ports } = place;
  const on = (port) => `http://127.0.0.1:${port}`;
  const clientUrl = `${scheme}://127.0.0.1:${ports.client}`;
  const words = Object.entries({
    ...SETTINGS,
    ...(tls && (await writeCertificates(folder, tls))),
    ...settings,
    name: nameOf(id),
    'data-dir': join(folder, 'data'),
    'listen-client-urls': clientUrl,
    'advertise-client-urls': clientUrl,
    'listen-peer-urls': on(ports.peer),
    'initial-advertise-peer-urls': on(peerPorts[id - 1]),
    'initial-cluster': places.map((of, i) => `${nameOf(of.id)}=${on(peerPorts[i])}`).join(','),
    'listen-metrics-urls': on(ports.metrics),
  }).map(([name, value]) => `--${name}=${value}`);
  return runUntilReady(command, words, {
    env,
    folder,
    cwd: folder,
    isReady: () => isListening(ports.metrics),
  });
}

const nameOf = (id) => `e${id}`;

async function writeCertificates(folder, { key, cert, clientCa }) {
  const flags = {};
  const write = async (flag, text) => {
    flags[flag] = join(folder, `${flag}.pem`);
    await writeFile(flags[flag], text, { mode: 0o600 });
  };
  await write('key-file', key);
  await write('cert-file', cert);
  if (clientCa === undefined) return flags;
  await write('trusted-ca-file', clientCa);
  return { ...flags, 'client-cert-auth': 'true' };
}

async function ask({ ports }, path) {
  const url = `http://127.0.0.1:${ports.metrics}/${path}`;
  const answer = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS) });
  return answer.text();
}
