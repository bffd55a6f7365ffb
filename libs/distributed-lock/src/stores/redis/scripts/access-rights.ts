import { LockStoreError } from '../../../port/lock.errors.js';
import type { Chance } from '../../../time/chance.js';
import type { Client } from '../connection/redis.command.js';
import { whatIsDenied } from '../connection/redis.errors.js';
import { isTooOld, rightFor, scriptProbes, type Probe } from './access-probes.js';
import { rights as script } from './lua.generated.js';

/** No script has this hash. A user that may run scripts is told so, and any other that it may not. */
const NO_SCRIPT = '0'.repeat(40);
const TOO_OLD = 'Redis refused: it does not know SET … GET. Locks need Redis 6.2 or later.';

/** The error that a probe was answered with, or ''. */
type Answer = readonly [probe: Probe, answer: string];

interface Settings {
  readonly chance: Chance;
  readonly keyPrefix: string;
  readonly isCluster: boolean;
  readonly user: string;
  /** Commands outside of scripts. */
  readonly others: readonly Probe[];
}

/**
 * The rights that a lock needs and the Redis user lacks. The check tries each command, since `ACL` commands take rights of
 * their own. It is made by each new connection, and again to explain a refusal.
 *
 * Only a right that the server names in a refusal counts as missing. If the check fails in another way, acquires are sent
 * all the same.
 */
export class AccessRights {
  /** The message for callers who acquire; `undefined` while no right is known to be missing. */
  private refusal: string | undefined;
  private checking: Promise<void> | undefined;
  private readonly told = new Set<string>();
  private readonly inScripts: readonly Probe[];
  private readonly outside: readonly Probe[];

  constructor(
    private readonly settings: Settings,
    private readonly tell: (error: LockStoreError) => void,
  ) {
    this.inScripts = scriptProbes(settings.keyPrefix, settings.isCluster, settings.chance);
    this.outside = [['evalsha', NO_SCRIPT, '0'], ...settings.others];
  }

  /** Whether the last check found something missing. */
  get areLacking(): boolean {
    return this.refusal !== undefined;
  }

  /** Two or three commands, written at once. Commands that follow are executed after them. Never rejects. */
  check(client: Client): Promise<void> {
    const checking = this.checkNow(client).then(() => {
      if (this.checking === checking) this.checking = undefined;
    });
    return (this.checking = checking);
  }

  /**
   * Checks again, since the operator may have added a right. Callers who come together share one check.
   *
   * @param cause the refusal that it explains, if there was one
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

  /** Without the right to subscribe locks still work, but slowly. */
  onNotSubscribed(error: unknown): void {
    const [, command] = /permissions to run the '([\w|]+)' command/.exec(messageOf(error)) ?? [];
    if (command)
      this.tellOnce(
        `User "${this.settings.user}" may not subscribe, so waiters get their locks by polling. ${this.rule([`+${command}`])}`,
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
      if (whatIsDenied(error) !== 'command') return outside;
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
