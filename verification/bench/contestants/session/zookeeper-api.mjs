// The client of the protocol that our store has. It is no part of the package's public API.
const BUILT = '../../../../dist/library';
const CLIENT = `${BUILT}/zookeeper/client`;

const SESSION_MS = 30_000;
/** The floor has no deadline of its own. */
const COMMAND_TIMEOUT_MS = 10_000;
const nothing = () => undefined;

/**
 * One connection to ZooKeeper, with a session of its own.
 *
 * @param {string} url `zookeeper://host:port`
 */
export async function connectZookeeper(url) {
  const { systemChance } = await import(`${BUILT}/common/clock.js`);
  const { systemClock } = await import(`${BUILT}/common/clock.js`);
  const { ZookeeperSession } = await import(`${CLIENT}/session.js`);
  const requests = await import(`${CLIENT}/requests.js`);
  const { hostname: host, port } = new URL(url);
  let onConnected, onDisconnected;
  const connected = new Promise((resolve, reject) => ([onConnected, onDisconnected] = [resolve, reject]));
  const session = new ZookeeperSession(
    {
      clock: systemClock,
      chance: systemChance,
      servers: [{ host, port: Number(port) }],
      tls: undefined,
      credentials: undefined,
      timeoutMs: SESSION_MS,
      commandTimeoutMs: COMMAND_TIMEOUT_MS,
      lastZxid: 0,
      keepAlive: (session) => session.send(requests.sync('/')),
    },
    { onConnected, onDisconnected, onEvent: nothing, onEnd: nothing },
  );
  const ask = async (request) => (await session.send(request)).content;
  await connected;
  return {
    /** @param {string} path @param {string} data */
    createEphemeral: (path, data) =>
      ask({ ...requests.create(path, { acl: 'open', data, isEphemeral: true }), read: nothing }),
    /** @param {string} path */
    remove: (path) => ask({ ...requests.remove(path, requests.ANY_VERSION), read: nothing }),
    /** @param {string} path @returns {Promise<readonly string[]>} */
    childrenOf: async (path) => (await ask(requests.getChildren(path))).names,
    close: () => void session.close(false),
  };
}
