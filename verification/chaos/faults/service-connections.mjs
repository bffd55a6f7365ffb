/** Per dialect: the ids of connections other than the operator's, and a statement that ends one. */
const STATEMENTS = {
  postgres: {
    list: `SELECT pid AS id FROM pg_stat_activity WHERE usename = 'service'`,
    end: (id) => `SELECT pg_terminate_backend(${id})`,
  },
  mysql: {
    list: `SELECT id AS id FROM information_schema.processlist WHERE id <> connection_id() AND user IN ('service', 'root')`,
    end: (id) => `KILL ${id}`,
  },
};

/** The connections of the service as its operator sees them, on one that he keeps. */
export async function serviceConnections(store) {
  const { list, end } = STATEMENTS[store.dialect];
  const session = await store.session();
  return {
    list: async () => (await session.query(list)).map(({ id }) => id),
    /** One of them may have ended by itself meanwhile. */
    async end(ids) {
      for (const id of ids) await session.query(end(id)).catch(() => undefined);
    },
    close: () => session.end(),
  };
}
