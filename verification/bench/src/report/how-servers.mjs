const COMMON = `**Libraries.** This library alone, and where there is one the floor of [Redis](redis.md#how-it-is-measured), in fresh processes.
_withLock_ is what \`@Locked\` calls: it returns the result of the work while the release is under way. _acquire + release_ awaits both.`;
const REST = 'All else is measured as on [Redis](redis.md#how-it-is-measured).';

/** As `HOW`, for several servers of Redis. */
export const HOW_SERVERS = {
  'redis-cluster': `
## How it is measured

${COMMON}

**Servers.** Three masters without replicas share the cores of this machine with the callers, and commands and CPU are those of all three.
The key that all ask for is on one of them. ${REST}
`,
  'redis-acks': `
## How it is measured

${COMMON}

**Servers.** A master and one replica on this machine. With \`minReplicaAcks: 1\` a caller enters when the replica has its grant, so \`WAIT\` is
among the commands; one counts for all callers that wait at the time. Commands and CPU are those of the master. ${REST}
`,
};
