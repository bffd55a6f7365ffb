import { Module, type DynamicModule, type OnApplicationShutdown } from '@nestjs/common';
import { Database } from './database.js';
import { createSchema } from './schema.js';

@Module({})
export class DatabaseModule implements OnApplicationShutdown {
  constructor(private readonly database: Database) {}

  static register(url: string | undefined): DynamicModule {
    const provider = { provide: Database, useFactory: () => openDatabase(url) };
    return { module: DatabaseModule, global: true, providers: [provider], exports: [Database] };
  }

  /** The last step of a shutdown: requests that were running have ended by now. */
  async onApplicationShutdown(): Promise<void> {
    await this.database.close();
  }
}

async function openDatabase(url: string | undefined): Promise<Database> {
  const database = await connect(url);
  try {
    await createSchema(database);
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** Each kind is loaded when it is needed. */
async function connect(url: string | undefined): Promise<Database> {
  if (url === undefined) return new (await import('./embedded.database.js')).EmbeddedDatabase();
  return new (await import('./postgres.database.js')).PostgresDatabase(url);
}
