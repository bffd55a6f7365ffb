import { LockStoreError } from '../../../port/lock.errors.js';
import type { Client } from './redis.command.js';
import { isTooOld, rightFor, scriptProbes, whatIsDenied, type Probe } from './access-probes.js';
import { rights as script } from '../scripts/lua.generated.js';

/** No script has this hash: who may run scripts is told so, and others that they may not. */
const NO_SCRIPT = '0'.repeat(40);
const TOO_OLD = 'Redis refused: it does not know SET … GET. Locks need Redis 6.2 or later.';

/** The error that a probe was answered with, or ''. */
type Answer = readonly [probe: Probe, answer: string];

interface Settings {
  readonly keyPrefix: string;
  readonly isCluster: boolean;
  readonly user: string;
  /** Whether replicas are counted, by `WAIT`. */
  readonly waits: boolean;
}

/**
 * What the Redis user may not do and a lock needs, found out by trying it, since asking takes rights of its own.
 *
 * Only what the server says in so many words counts as missing. Whatever else goes wrong with the check says nothing: the
 * locks then have to find out for themselves.
 */
export class AccessRights {
  /** What to tell who asks for a lock; `undefined` as long as nothing is known to be missing. */
  private refusal: string | undefined;
  private checking: Promise<void> | undefined;
  private readonly told = new Set<string>();
  private readonly inScripts: readonly Probe[];
  private readonly outside: readonly Probe[];

  constructor(
    private readonly settings: Settings,
    private readonly tell: (error: LockStoreError) => void,
  ) {
    this.inScripts = scriptProbes(settings.keyPrefix, settings.isCluster);
    this.outside = [['evalsha', NO_SCRIPT, '0'], ...(settings.waits ? ([['wait', '0', '0']] as const) : [])];
  }

  /** Whether the last check found something missing. */
  get areLacking(): boolean {
    return this.refusal !== undefined;
  }

  /** Two or three commands, written at once: what is written after them is answered after them. Never rejects. */
  check(client: Client): Promise<void> {
    const checking = this.checkNow(client).then(() => {
      if (this.checking === checking) this.checking = undefined;
    });
    return (this.checking = checking);
  }

  /**
   * Looks again, since somebody may have added what was missing. Callers who come together share one check.
   *
   * @param cause the answer that it explains, if one was given
   */
  async refusalFor(
    client: Client,
    key: string | undefined,
    cause?: unknown,
  ): Promise<LockStoreError | undefined> {
    await (this.checking ?? this.check(client));
    return this.refusal === undefined
      ? undefined
      : new LockStoreError(this.refusal, key, 'refused', { cause });
  }

  /** Locks go on without a right to listen, but slowly. */
  onDeaf(error: unknown): void {
    const [, command] = /permissions to run the '([\w|]+)' command/.exec(messageOf(error)) ?? [];
    if (command)
      this.tellOnce(
        `User "${this.settings.user}" may not listen, so who waits for a lock looks for it again and again. ${this.rule([`+${command}`])}`,
      );
  }

  private async checkNow(client: Client): Promise<void> {
    const answers = await this.answers(client);
    this.refusal = this.refusalOf(answers);
    if (this.refusal) this.tellOnce(this.refusal);
  }

  private refusalOf(answers: readonly Answer[]): string | undefined {
    const { keyPrefix, user } = this.settings;
    const missing = answers.flatMap(([probe, answer]) => rightFor(probe, answer, keyPrefix) ?? []);
    if (missing.length > 0)
      return `Redis refused: user "${user}" lacks rights that a lock needs. ${this.rule(missing)}`;
    return answers.some(([probe, answer]) => isTooOld(probe, answer)) ? TOO_OLD : undefined;
  }

  private async answers(client: Client): Promise<readonly Answer[]> {
    const outside = Promise.all(this.outside.map((probe) => answerTo(client, probe)));
    try {
      const answers = await client.call('eval', script, '0', JSON.stringify(this.inScripts));
      const inside = this.inScripts.map((probe, i): Answer => [probe, (answers as string[])[i] ?? '']);
      return [...(await outside), ...inside];
    } catch (error) {
      const denied = messageOf(error);
      if (whatIsDenied(denied) !== 'command') return outside;
      const inside = this.inScripts.map((probe) => answerTo(client, probe));
      return [...(await outside), [['eval'], denied], ...(await Promise.all(inside))];
    }
  }

  private rule(missing: readonly string[]): string {
    return `Add what is missing: ACL SETUSER ${this.settings.user} ${[...new Set(missing)].join(' ')}`;
  }

  private tellOnce(message: string): void {
    if (this.told.has(message)) return;
    this.told.add(message);
    this.tell(new LockStoreError(message, undefined, 'refused'));
  }
}

export function isDenied(error: unknown): boolean {
  return whatIsDenied(messageOf(error)) !== undefined;
}

async function answerTo(client: Client, probe: Probe): Promise<Answer> {
  const [command, ...words] = probe;
  return client.call(command, ...words).then(
    () => [probe, ''],
    (error: unknown) => [probe, messageOf(error)],
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
