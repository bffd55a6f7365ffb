import { Injectable, Logger, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { LockService } from 'nestjs-distributed-lock';
import { Database, type Row } from '../database.js';

export interface KnownInstance extends Row {
  /** Its number, and so its name on every page. */
  readonly id: number;
  readonly url: string;
  /** The name of its process in the store of the locks; `null` before its first lock. */
  readonly lockClient: string | null;
  readonly isAlive: boolean;
}

const BEAT_MS = 250;

/** An instance that was silent for 3 s is dead. Its row stays for an hour: it may hold locks, and the page names their holder. */
const KNOWN = `
  SELECT id, url, lock_client AS "lockClient", seen_at > now() - interval '3 seconds' AS "isAlive"
  FROM instances WHERE url IS NOT NULL ORDER BY id`;
const FORGET = `DELETE FROM instances WHERE seen_at < now() - interval '1 hour'`;

const BEAT = `
  INSERT INTO instances (id, url, lock_client) VALUES ($1, $2, $3)
  ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp(), url = $2, lock_client = $3`;

/** Tells the other instances of this one, in the background, so that no sale waits for it. */
@Injectable()
export class InstanceService implements OnModuleInit, OnModuleDestroy {
  id = 0;
  private readonly logger = new Logger(InstanceService.name);
  private url: string | undefined;
  private lockClient: string | null = null;
  private timer: NodeJS.Timeout | undefined;
  private beating: Promise<void> | undefined;
  private hasFailed = false;

  constructor(
    private readonly database: Database,
    locks: LockService,
  ) {
    locks.events$.subscribe((event) => {
      // An owner is written client:number.
      if (event.type === 'acquired') this.lockClient = event.owner.slice(0, event.owner.lastIndexOf(':'));
    });
  }

  async onModuleInit(): Promise<void> {
    await this.database.query(FORGET);
    const [row] = await this.database.query<{ id: number }>(
      'INSERT INTO instances DEFAULT VALUES RETURNING id',
    );
    this.id = row!.id;
  }

  /** Call this when the app listens. From now on the other instances can find this one. */
  async announce(url: string): Promise<void> {
    this.url = url;
    await this.beat();
    const beat = () => {
      this.beating ??= this.beat();
    };
    this.timer = setInterval(beat, BEAT_MS).unref();
  }

  async onModuleDestroy(): Promise<void> {
    clearInterval(this.timer);
    await this.beating;
    // If the database does not answer, the others notice the silence.
    await this.database.query('DELETE FROM instances WHERE id = $1', [this.id]).catch(() => undefined);
  }

  /** The running and the killed instances, in the order of their numbers. */
  known(): Promise<readonly KnownInstance[]> {
    return this.database.query<KnownInstance>(KNOWN);
  }

  /** Never rejects. If the database does not answer, it logs that once and tries again at the next beat. */
  private async beat(): Promise<void> {
    try {
      await this.database.query(BEAT, [this.id, this.url, this.lockClient]);
      this.hasFailed = false;
    } catch (error) {
      if (!this.hasFailed) this.logger.warn(`The other instances cannot see this one: ${String(error)}`);
      this.hasFailed = true;
    }
    this.beating = undefined;
  }
}
