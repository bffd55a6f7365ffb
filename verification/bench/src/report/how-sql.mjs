const FLOORS = {
  postgres: `The floor is \`INSERT … ON CONFLICT … WHERE\` expired and \`DELETE\`, prepared, by \`pg\`, over 8 connections. As in our
release, its \`DELETE\` does not wait for the disk. In \`hop\` it is a lock whose steps are PL/pgSQL functions, one call each, which
keeps a queue and notifies the next by \`pg_notify\`.`,
  mysql: `The floor is \`INSERT … ON DUPLICATE KEY UPDATE\` and \`DELETE\`, prepared, by \`mysql2\`, over 8 connections.`,
  sqlite: `The floor is \`INSERT … ON CONFLICT … WHERE\` expired and \`DELETE\`, prepared, in the same file.`,
};
const COUNTED = {
  postgres: `**Statements** are the calls in \`pg_stat_statements\`. It leaves out those that fail, such as the inserts by which
verrou finds a key taken.`,
  mysql: `**Statements** are the \`Com_\` counters of the server: a packet of several statements counts as several.`,
  sqlite: 'There is no server, so statements are not counted.',
};
const DURABILITY = {
  postgres: 'A commit waits for the disk (`fsync = on`), for all libraries alike.',
  mysql:
    'A commit waits for the disk (`innodb_flush_log_at_trx_commit = 1`), for all libraries alike. The binary log is off.',
  sqlite: 'Write-ahead log, `synchronous = NORMAL`, for all libraries alike.',
};
const PEERS = {
  postgres: `\`@verrou/core\` uses Knex and its pool. It polls. \`advisory-lock\` opens a connection for each lock. The raw lock is
\`pg_advisory_lock\` on a connection of a \`pg.Pool\` of 10, which the caller keeps while it waits and works: such a lock has no
lease, and is held until its connection ends.`,
  mysql: `\`@verrou/core\` uses Knex and its pool. It polls. The raw lock is \`GET_LOCK\` on a connection of a pool of 10, which
the caller keeps while it waits and works: such a lock has no lease, and is held until its connection ends.`,
  sqlite: '',
};

/** As `HOW`, for a database. @param {string} id of the store */
export function howSql(id) {
  const dialect = id === 'mariadb' ? 'mysql' : id;
  return `
## How it is measured

**Libraries.** Each library runs with the defaults that it documents, in fresh processes, on one server of this machine.
${FLOORS[dialect]} _withLock_ is what \`@Locked\` calls: it returns the result of the work while the release is under way.
_acquire + release_ awaits both, as the other libraries do. ${PEERS[dialect]}

**Disk.** ${DURABILITY[dialect]} Slower disks raise the cost of each commit, also that of the floor.

**Fairness** is Jain's index of the locks that each caller got: 1 when all got the same, 1/n when one got all. In the figures to
reach it is that of the locks that each process got.

${COUNTED[dialect]}

**CPU** of the server is that of its processes in \`/proc\`, counted in ticks of 10 ms. All else is measured as on
[Redis](redis.md#how-it-is-measured).
`;
}
