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
  const { ANY_VERSION, Operation, Request, ZookeeperRefusalError } = await import(`${CLIENT}/protocol.js`);
  const { hostname: host, port } = new URL(url);
  let onConnected, onDisconnected;
  const connected = new Promise((resolve, reject) => ([onConnected, onDisconnected] = [resolve, reject]));
  const session = new ZookeeperSession(
    {
      clock: systemClock,
      chance: systemChance,
      servers: [{ host, port: Number(port) }],
      tls: undefined,
      auth: undefined,
      timeoutMs: SESSION_MS,
      commandTimeoutMs: COMMAND_TIMEOUT_MS,
      lastZxid: 0,
      keepAlive: () => session.send(Request.sync('/')),
    },
    { onConnected, onDisconnected, onWatch: nothing, onEnd: nothing },
  );
  const ask = async (request) => (await session.send(request)).content;
  const write = async (operation) => {
    const reply = await ask(Request.multi([operation]));
    if (!reply.isDone) throw new ZookeeperRefusalError(reply.code);
  };
  await connected;
  return {
    /** @param {string} path @param {string} data */
    createEphemeral: (path, data) => write(Operation.create(path, { acl: 'open', data, isEphemeral: true })),
    /** @param {string} path */
    remove: (path) => write(Operation.remove(path, ANY_VERSION)),
    /** @param {string} path @returns {Promise<readonly string[]>} */
    childrenOf: async (path) => (await ask(Request.getChildren(path))).names,
    close: () => void session.close(false),
  };
}
