import { inBackground } from '../../async-context/in-background.js';
import type { Clock } from '../../time/clock.js';
import { CODE, ZookeeperRefusal } from './client/codes.js';
import { create, getData, multi, type Acl, type WatchEvent } from './client/requests.js';
import type { ZookeeperSession } from './client/session.js';
import { isCode } from './zookeeper.errors.js';

/** The version of a mailbox that was just made. */
const EMPTY = 0;
/** A refused reading has set no watch, so the mailbox is read again after this time. */
export const READ_AGAIN_MS = 200;

/**
 * A znode of one client, into which the others write their messages. A watch tells once that it has changed, so it is read
 * with a new watch each time. Each message overwrites the one before: the version tells whether one was missed.
 */
export class Mailbox {
  private version = EMPTY;
  /** Counts the readings. Only the reply to the latest one is used. */
  private readings = 0;

  constructor(private readonly options: MailboxOptions) {}

  /** Watches are lost with the connection that they were set on. */
  onConnected(): void {
    this.readInBackground();
  }

  onEvent({ path }: WatchEvent): void {
    if (path === this.options.path) this.readInBackground();
  }

  private readInBackground(): void {
    const reading = ++this.readings;
    inBackground(this.read(reading), (error) => this.onFailed(reading, error));
  }

  /** Reads again after a refusal. The version then tells whether messages were missed. The next connection reads, too. */
  private onFailed(reading: number, error: unknown): void {
    if (!(error instanceof ZookeeperRefusal)) return;
    const { clock, session } = this.options;
    clock.after(READ_AGAIN_MS, () => {
      if (reading === this.readings && session.isConnected) this.readInBackground();
    });
  }

  private async read(reading: number): Promise<void> {
    const { session, path } = this.options;
    try {
      const { content } = await session.send(getData(path, true));
      if (reading !== this.readings) return;
      const { version, mzxid } = content.stat;
      const before = this.version;
      this.version = version;
      if (version === before) return;
      this.options.onMessage(content.data, mzxid);
      if (version !== before + 1) this.options.onGap();
    } catch (error) {
      if (!isCode(error, CODE.noNode) || reading !== this.readings) throw error;
      await this.makeAgain();
      this.readInBackground();
    }
  }

  /** The mailbox was deleted by hand. */
  private async makeAgain(): Promise<void> {
    const { session, path, acl } = this.options;
    const { content } = await session.send(multi([create(path, { acl, isEphemeral: true })]));
    if (!content.isDone && content.code !== CODE.nodeExists) throw new ZookeeperRefusal(content.code);
    this.version = EMPTY;
    this.options.onGap();
  }
}

interface MailboxOptions {
  readonly clock: Clock;
  readonly session: ZookeeperSession;
  readonly path: string;
  readonly acl: Acl;
  /** @param order the transaction that sent it */
  onMessage(text: string, order: number): void;
  /** Messages were overwritten by later ones. */
  onGap(): void;
}
