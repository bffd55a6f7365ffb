import { mkdir, writeFile } from 'node:fs/promises';
import { connect as connectTo } from 'node:net';
import { delimiter, join } from 'node:path';
import { startOwnCluster } from '../own-cluster/index.mjs';
import { isListening, runUntilReady } from '../own-server/index.mjs';
import { findZookeeperServer } from './find-zookeeper-server.mjs';

const SETTINGS = {
  tickTime: 500,
  initLimit: 6,
  syncLimit: 5,
  minSessionTimeout: 1_000,
  maxSessionTimeout: 40_000,
  maxClientCnxns: 0,
  '4lw.commands.whitelist': 'ruok,srvr,cons,dump',
  'admin.enableServer': 'false',
};
/** The log is written before a change is answered, but nobody waits for the disk: only processes are killed here. */
const PROPERTIES = { 'zookeeper.forceSync': 'no' };
const JVM = ['-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];
const NETTY = 'org.apache.zookeeper.server.NettyServerCnxnFactory';
const LOGBACK = `<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level %logger{1} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out" /></root>
</configuration>
`;
const ANSWER_MS = 1_000;

/** @type {import('./index.d.mts').startZookeeperServer} */
export async function startZookeeperServer(options) {
  const { members } = await startZookeeperCluster(1, options);
  return members[0];
}

/** @type {import('./index.d.mts').startZookeeperCluster} */
export async function startZookeeperCluster(size = 3, options = {}) {
  const found = findZookeeperServer();
  return startOwnCluster({
    name: 'zookeeper-server',
    size,
    // With TLS for clients, `plain` is a port for the questions below, which only a test on this machine asks.
    portNames: ['quorum', 'election', 'plain'],
    urlOn: (port) => `127.0.0.1:${port}`,
    connect,
    run: (place, places, routes) => run(found, { place, routes, isAlone: places.length === 1, ...options }),
    isHealthy: async (place) => (await modeOf(place, options)) !== undefined,
    isLeader: async (place) => ['leader', 'standalone'].includes(await modeOf(place, options)),
  });
}

/**
 * Two proxies for each member that connects to another: each member knows the others by addresses of its own.
 *
 * @returns {Promise<Map<number, Map<number, string>>>} by member, and by the other member: where it finds that
 */
async function connect(links, places) {
  const proxies = new Map();
  for (const from of places) {
    for (const to of places) {
      if (from === to) continue;
      const quorum = await links.before(to.ports.quorum, { from: from.id, to: to.id });
      const edit = (chunk) => callBackThroughProxy(chunk, from, proxies.get(key(to, from)).election.port);
      const election = await links.before(to.ports.election, { from: from.id, to: to.id, edit });
      proxies.set(key(from, to), { quorum, election });
    }
  }
  return new Map(
    places.map((from) => [
      from.id,
      new Map(
        places.map((to) => {
          const { quorum, election } = from === to ? {} : proxies.get(key(from, to));
          const ports = [quorum?.port ?? to.ports.quorum, election?.port ?? to.ports.election];
          return [to.id, `127.0.0.1:${ports.join(':')}`];
        }),
      ),
    ]),
  );
}

const key = (from, to) => `${from.id}-${to.id}`;

/**
 * Of two members only the one with the greater number connects. The other names the address of its own port, to be
 * called back: in its place the proxy puts its counterpart's, which has as many digits.
 */
function callBackThroughProxy(chunk, { ports }, proxyPort) {
  const at = chunk.indexOf(`127.0.0.1:${ports.election}`);
  if (at < 0) return chunk;
  const edited = Buffer.from(chunk);
  edited.write(`${proxyPort}`, at + '127.0.0.1:'.length);
  return edited;
}

/** @param {import('./index.d.mts').ZookeeperCommand} how */
async function run({ command, classPath }, { place, routes, isAlone, settings, properties, tls, env }) {
  const { folder, id, ports } = place;
  const data = join(folder, 'data');
  const file = join(folder, 'zoo.cfg');
  const clientPorts = tls
    ? { secureClientPort: ports.client, clientPort: ports.plain }
    : { clientPort: ports.client };
  const lines = Object.entries({
    ...SETTINGS,
    ...(tls && (await writeCertificates(folder, tls))),
    ...settings,
    dataDir: data,
    ...clientPorts,
    clientPortAddress: '127.0.0.1',
    ...(tls && { secureClientPortAddress: '127.0.0.1' }),
    ...(!isAlone &&
      Object.fromEntries([...routes.get(id)].map(([to, address]) => [`server.${to}`, address]))),
  }).map(([name, value]) => `${name}=${value}\n`);
  await mkdir(data, { recursive: true });
  await writeFile(join(data, 'myid'), `${id}`);
  await writeFile(file, lines.join(''));
  await writeFile(join(folder, 'logback.xml'), LOGBACK);
  const words = Object.entries({ ...PROPERTIES, ...properties }).map(([name, value]) => `-D${name}=${value}`);
  const main = ['org.apache.zookeeper.server.quorum.QuorumPeerMain', file];
  const path = [folder, classPath].join(delimiter);
  return runUntilReady(command, [...JVM, ...words, '-cp', path, ...main], {
    env: { ...process.env, ...env },
    folder,
    cwd: folder,
    isReady: () => isListening(ports.client),
  });
}

async function writeCertificates(folder, { key, cert, clientCa }) {
  const identity = join(folder, 'identity.pem');
  await writeFile(identity, `${key}\n${cert}\n`, { mode: 0o600 });
  const settings = {
    serverCnxnFactory: NETTY,
    'ssl.keyStore.location': identity,
    'ssl.clientAuth': clientCa === undefined ? 'none' : 'need',
  };
  // ZooKeeper opens a trust store although it asks no client for a certificate.
  const trusted = join(folder, 'trusted.pem');
  await writeFile(trusted, clientCa ?? cert);
  return { ...settings, 'ssl.trustStore.location': trusted };
}

/** @returns {Promise<string | undefined>} `leader`, `follower` or `standalone`; `undefined` while it serves no client */
async function modeOf({ ports }, { tls }) {
  return /^Mode: (\w+)$/m.exec(await ask(tls ? ports.plain : ports.client, 'srvr'))?.[1];
}

/** @param {number} port @param {string} word @returns {Promise<string>} */
function ask(port, word) {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connectTo(port, '127.0.0.1', () => socket.write(word));
    socket.setTimeout(ANSWER_MS, () =>
      socket.destroy(new Error(`No answer to ${word} within ${ANSWER_MS} ms`)),
    );
    socket.on('data', (chunk) => (answer += chunk)).on('error', reject);
    socket.on('close', () => resolve(answer));
  });
}
