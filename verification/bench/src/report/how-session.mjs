const ENGINES = {
  etcd: `The floor is a transaction that creates a key under the process's lease, and one that deletes it if it is still the
owner's, by \`@grpc/grpc-js\`, over 8 connections. In \`hop\` it is the first of the two, where nobody else wants the key. etcd's own
RPC \`Lock\` waits in the server; the owner there is a lease, so each caller at work has one, granted before. \`etcd3\` grants and
revokes a lease for each lock. Its lock does not wait: it refuses a key that is held.`,
  zookeeper: `The floor is the creation of an ephemeral znode and its deletion, each a \`multi\` of its own, by our own client of the protocol, over 8 connections.
In \`hop\` it is the creation alone, where nobody else wants the znode. \`node-zookeeper-client\` has no lock: it runs ZooKeeper's recipe,
sequential ephemeral znodes of which each watches the one before. Curator's \`InterProcessMutex\` is that recipe too, in a JVM for each
process, with a thread for each caller.`,
};
const COUNTED = {
  etcd: `**Requests** are the messages that the server has received, by its own metrics: a transaction is one. Those that keep
sessions alive, and watches, are among them.`,
  zookeeper: `**Requests** are the packets that the server has received, by its own count: a \`multi\` is one. Those that keep sessions
alive are among them.`,
};
const DURABILITY = {
  etcd: 'A write waits for the disk (the write-ahead log is synced), for all libraries alike.',
  zookeeper: 'A write waits for the disk (`forceSync`), for all libraries alike.',
};
const CPU = {
  etcd: "that of the server's process, by its metrics",
  zookeeper: 'that of its process in `/proc`, counted in ticks of 10 ms',
};

/** @param {number} size */
const members = (size) =>
  size === 1
    ? ''
    : `**Members.** All ${size} share the cores and the disk of this machine with the callers. This library has the addresses of all, the floor
has that of the leader. Requests and CPU are those of all members.

`;

/** As `HOW`, for a coordination service. @param {keyof typeof ENGINES} id of the store @param {number} [size] its members */
export const howSession = (id, size = 1) => `
## How it is measured

**Libraries.** Each library runs with the defaults that it documents, in fresh processes, on ${size === 1 ? 'one server' : `${size} servers`} of this machine.
${ENGINES[id]} _withLock_ is what \`@Locked\` calls: it returns the result of the work while the release is under way.
_acquire + release_ awaits both, as the other libraries do.

${members(size)}**Disk.** ${DURABILITY[id]} Slower disks raise the cost of each write, also that of the floor.

**Fairness** is Jain's index of the locks that each caller got: 1 when all got the same, 1/n when one got all. In the figures to
reach it is that of the locks that each process got.

${COUNTED[id]}

**CPU** of the server is ${CPU[id]}. All else is measured as on [Redis](redis.md#how-it-is-measured).
`;
