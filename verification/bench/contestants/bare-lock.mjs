/**
 * A lock of two bare statements. Each key keeps to one of the connections, which are shared out evenly.
 *
 * @template Connection
 * @param {readonly Connection[]} connections
 * @param {object} statements
 * @param {(connection: Connection, values: [key: string, owner: string]) => Promise<boolean>} statements.take
 * @param {(connection: Connection, values: [key: string, owner: string]) => Promise<unknown>} statements.giveBack
 * @returns {import('./contestant.d.mts').Contestant}
 */
export function bareLock(connections, { take, giveBack }) {
  /** @type {Map<string, Connection>} */
  const byKey = new Map();
  let calls = 0;
  const connectionOf = (key) => {
    if (!byKey.has(key)) byKey.set(key, connections[byKey.size % connections.length]);
    return byKey.get(key);
  };
  return {
    async run(key, work) {
      const connection = connectionOf(key);
      const owner = `${process.pid}:${++calls}`;
      if (!(await take(connection, [key, owner]))) throw new Error(`${key} is taken`);
      try {
        return await work();
      } finally {
        await giveBack(connection, [key, owner]);
      }
    },
  };
}
