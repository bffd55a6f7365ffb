import { reasonOf } from '../preflight/reason-of.js';
import { SERVERS } from '../stores/servers.js';

/** A schema of the app in a database server of the user. */
export interface OwnSchema {
  /** The address of the same server. Its connections use the tables of the schema only. */
  readonly url: string;
  /** Creates the schema unless it exists. @throws Error with the reason and the remedy */
  create(): Promise<void>;
  /** Removes the schema and its tables. */
  drop(): Promise<void>;
}

interface Dialect {
  /** Runs a statement on a connection of its own. @returns its rows */
  readonly run: (url: string, sql: string) => Promise<unknown>;
  /** Changes the address to one whose connections use the schema. */
  readonly enter: (url: URL, schema: string) => void;
  /** SQL of the schema that a connection uses. */
  readonly current: string;
  readonly drop: (schema: string) => string;
}

const DIALECTS = {
  databaseUrl: {
    run: async (url, sql) => {
      const { default: pg } = await import('pg');
      const client = new pg.Client(url);
      // An error of the connection also rejects the query.
      client.on('error', () => {});
      await client.connect();
      try {
        return (await client.query(sql)).rows;
      } finally {
        await client.end();
      }
    },
    enter: ({ searchParams }, schema) => {
      const given = searchParams.get('options') ?? '';
      searchParams.set('options', `${given} -c search_path=${schema}`.trim());
    },
    current: 'SELECT current_schema() AS name',
    drop: (schema) => `DROP SCHEMA IF EXISTS ${schema} CASCADE`,
  },
  // In MySQL a schema is a database.
  mysqlUrl: {
    run: async (url, sql) => {
      const { createConnection } = await import('mysql2/promise');
      const connection = await createConnection(url);
      try {
        return (await connection.query(sql))[0];
      } finally {
        await connection.end();
      }
    },
    enter: (url, schema) => {
      url.pathname = schema;
    },
    current: 'SELECT DATABASE() AS name',
    drop: (schema) => `DROP SCHEMA IF EXISTS ${schema}`,
  },
} as const satisfies Readonly<Record<string, Dialect>>;

export type DatabaseName = keyof typeof DIALECTS;

export function isDatabase(server: string): server is DatabaseName {
  return Object.hasOwn(DIALECTS, server);
}

/** @param schema a name that needs no quotes */
export function ownSchema(server: DatabaseName, userUrl: string, schema: string): OwnSchema {
  const { run, enter, current, drop }: Dialect = DIALECTS[server];
  const { variable, product } = SERVERS[server];
  const inSchema = new URL(userUrl);
  enter(inSchema, schema);
  const url = inSchema.href;

  const createAndEnter = async () => {
    await run(userUrl, `CREATE SCHEMA IF NOT EXISTS ${schema}`);
    const [{ name }] = (await run(url, current)) as [{ name: string }];
    if (name !== schema) throw new Error(`its connections use the schema ${name}, as behind a pooler`);
  };
  return {
    url,
    create: () =>
      createAndEnter().catch((error: unknown) => {
        throw new Error(
          `The schema ${schema} cannot be used in the ${product} of ${variable}: ${reasonOf(error)}.
Name a server without a pooler and a user who may create a schema, or leave ${variable} out: then none of yours is needed.`,
          { cause: error },
        );
      }),
    drop: async () => void (await run(userUrl, drop(schema))),
  };
}
