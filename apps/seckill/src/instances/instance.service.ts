import { Injectable, Logger, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { InstancesRepository } from './instances.repository.js';
import { LockTraffic } from './lock-traffic.js';

/** How often an instance tells of itself. */
const EVERY_MS = 250;

/** This process among the instances of the app: in the background, so that no sale waits for it. */
@Injectable()
export class InstanceService implements OnModuleInit, OnModuleDestroy {
  id = 0;
  private readonly logger = new Logger(InstanceService.name);
  private url: string | undefined;
  private timer: NodeJS.Timeout | undefined;
  private saving: Promise<void> | undefined;
  private failed = false;

  constructor(
    private readonly instances: InstancesRepository,
    private readonly traffic: LockTraffic,
  ) {}

  async onModuleInit(): Promise<void> {
    this.id = await this.instances.add();
  }

  /** Call this when the app listens. From now on the other instances can find this one. */
  async announce(url: string): Promise<void> {
    this.url = url;
    await this.save();
    const beat = () => {
      this.saving ??= this.save();
    };
    this.timer = setInterval(beat, EVERY_MS).unref();
  }

  async onModuleDestroy(): Promise<void> {
    clearInterval(this.timer);
    await this.saving;
    // Where the database is away, the silence tells.
    await this.instances.remove(this.id).catch(() => undefined);
  }

  /** Never rejects: a database that is away is told once, and asked again. */
  private async save(): Promise<void> {
    const { id, url = '', traffic } = this;
    try {
      await this.instances.save({ id, url, client: traffic.client, waiting: traffic.waiting() });
      this.failed = false;
    } catch (error) {
      if (!this.failed) this.logger.warn(`The other instances cannot see this one: ${String(error)}`);
      this.failed = true;
    }
    this.saving = undefined;
  }
}
