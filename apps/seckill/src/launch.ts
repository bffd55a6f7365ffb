import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { startEmbeddedDatabase } from './embedded-database.js';
import type { Environment } from './settings.js';

/** A process of the app. */
export interface Instance {
  /** Its number on the page. */
  readonly id: number;
  readonly url: string;
  readonly process: ChildProcess;
}

/** Several processes of the app, which share their database and their locks. */
export interface Shop {
  readonly databaseUrl: string;
  readonly instances: readonly Instance[];
  close(): Promise<void>;
}

const MAIN = fileURLToPath(new URL('./main.js', import.meta.url));

/** Starts the instances, and an embedded Postgres for them unless `DATABASE_URL` names another. */
export async function launch(count: number, env: Environment, program = MAIN): Promise<Shop> {
  const embedded = env['DATABASE_URL'] ? undefined : await startEmbeddedDatabase();
  const databaseUrl = embedded?.url ?? env['DATABASE_URL']!;
  const children: ChildProcess[] = [];
  const close = async () => {
    await Promise.all(children.map(stop));
    await embedded?.close();
  };
  try {
    const instances: Instance[] = [];
    // One after the other, so that their numbers follow their ports.
    for (let i = 0; i < count; i++) {
      const port = Number(env['PORT'] || 3000);
      const ownEnv = { ...env, DATABASE_URL: databaseUrl, PORT: String(port && port + i) };
      const child = fork(program, { env: ownEnv, execArgv: [] });
      children.push(child);
      instances.push(await untilListening(child));
    }
    return { databaseUrl, instances, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function untilListening(child: ChildProcess): Promise<Instance> {
  const ended = once(child, 'exit').then(() => undefined);
  const listening = once(child, 'message') as Promise<[Omit<Instance, 'process'>]>;
  const answer = await Promise.race([listening, ended]);
  if (!answer) throw new Error('An instance ended before it listened.');
  return { ...answer[0], process: child };
}

/** Lets a process finish its requests and release its locks. */
async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}
