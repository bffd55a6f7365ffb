// What is known of a locked method before any call: its keys, its options, and what is wrong with them. The explorer makes the
// plan of each method at boot, and every call of a method begins with its plan.
import { type KeySite, KeyPlan, newKeySite, oncePerMethod, type RequestValues } from '../keys/key-plan.js';
import type { KeyTemplate } from '../keys/key-template.js';
import type { CallOptions, Lock } from '../lock/lock.js';
import { withClaimOf } from '../lock/request/key-claim.js';
import { type AnyClass, type AnyFunction, ROUTE_PARAMETER } from '../nest/metadata.js';
import { LockConfigurationError, type LockError } from '../port/lock.errors.js';
import { callOptions, checkLockedOptions, type LockedOptions, optionsOf } from './locked.options.js';

/** One `@Locked` as written in the source. */
export interface LockedSite extends KeySite {
  /** The options of `@Locked` alone, without the defaults of the class. */
  readonly options: LockedOptions;
  /** The next `@Locked` below this one on the same method, if there are several. */
  readonly inner: LockedSite | undefined;
  /** True for an `async *` method. Its call returns an async generator at once. */
  readonly isGenerator: boolean;
}

/** Makes the site of a `@Locked`. */
export function newLockedSite(
  place: Parameters<typeof newKeySite>[0],
  { key, options }: Pick<LockedSite, 'key' | 'options'>,
): LockedSite {
  const { original } = place;
  return {
    ...newKeySite(place, { decorator: '@Locked', key }),
    options,
    inner: siteOf(original),
    isGenerator: Object.prototype.toString.call(original) === '[object AsyncGeneratorFunction]',
  };
}

const SITE = Symbol.for('nestjs-distributed-lock/site');

export function putSite(fn: AnyFunction, site: LockedSite): void {
  Reflect.defineMetadata(SITE, site, fn);
}

export function siteOf(fn: unknown): LockedSite | undefined {
  return typeof fn === 'function' ? (Reflect.getOwnMetadata(SITE, fn) as LockedSite | undefined) : undefined;
}

/** The keys and the options of one locked method of one concrete class. */
export class LockPlan extends KeyPlan<LockedSite> {
  /** The options of `@Locked`, with those of `@LockDefaults` for what it leaves out. */
  readonly options: LockedOptions;
  /** The options that each call passes to the service. */
  readonly call: CallOptions;
  /** What a call gets if its lock is lost while the method runs. */
  readonly onLost: 'throw' | 'ignore';

  /** @throws LockConfigurationError for a name that the method does not have, or options that do not fit it */
  constructor(cls: AnyClass, site: LockedSite) {
    super(cls, site);
    this.options = optionsOf(cls, site.options);
    this.call = callOptions(this.options, this.where);
    this.onLost = this.options.onLost ?? 'throw';
    // Check the merged options: those of the method may contradict those of its class.
    checkLockedOptions(`@Locked on ${this.where}`, this.options, site.key);
    if (this.kind) this.checkHandler();
  }

  /**
   * A warning if the key is the same for every request although the handler has a route parameter, so that all requests share one
   * lock. `undefined` for a key function, and for a key that several calls may hold at the same time.
   */
  get warning(): string | undefined {
    const { key } = this.site;
    if (this.kind !== 'http' || typeof key === 'function' || !this.isConstant) return undefined;
    const isExclusive = ({ claim }: KeyTemplate): boolean => {
      const { mode, permits } = withClaimOf(this.call, claim);
      return mode !== 'shared' && permits === undefined;
    };
    const texts = key.filter(isExclusive).map(({ text }) => text);
    if (texts.length === 0) return undefined;
    const parameter = this.decorated.find(
      ({ type, data }) => type === ROUTE_PARAMETER && typeof data === 'string',
    );
    if (!parameter) return undefined;
    const [name, text] = [String(parameter.data), texts.join('", "')];
    return `@Locked on ${this.where}: the key "${text}" is the same for every "${name}" of the route, so all of its requests wait for each other. Write "${texts[0]}:<${name}>" for a lock of its own for each. If one lock is meant, give a function: () => '${texts[0]}'.`;
  }

  /**
   * Returns whether these arguments of the handler make the keys that its request or message has locked.
   *
   * @throws LockConfigurationError for a message whose arguments make another key, because the handler would run under the wrong
   * lock. That happens with global pipes that Nest does not reveal: those of a microservice, and those that an application adds
   * after it has connected one.
   */
  covers(args: readonly unknown[], { lock: { keys }, values, isMessage }: LockedArguments): boolean {
    let other: string | undefined;
    try {
      other = this.keysByArguments(args, values).find((key) => !keys.includes(key));
    } catch (error) {
      if (isMessage) throw error;
      return false;
    }
    if (other === undefined || !isMessage) return other === undefined;
    throw new LockConfigurationError(
      `@Locked on ${this.where}: the handler is given the value of "${other}", but "${keys.join('", "')}" is locked, since pipes ran that this package cannot see: global ones of a microservice, or of the application after connectMicroservice. Bind them to the handler, or connect with inheritAppConfig after the last useGlobalPipes.`,
    );
  }

  /**
   * Returns whether `when` says that a call with these arguments needs no lock. Returns true if `when` returns a promise: it
   * cannot be awaited here.
   */
  isFree(args: readonly unknown[]): boolean {
    const { when } = this.options;
    const isNeeded: unknown = when && Reflect.apply(when, undefined, args.slice(0, when.length));
    return isNeeded instanceof Promise || !isNeeded;
  }

  /**
   * Returns whether the error is about a value that no client sends, such as `<user.tenant>`, so that the server is at fault. A
   * key function may use any of its arguments, so its error is the server's mistake only if clients send none of them.
   */
  isServerMistake({ key: rendered, part }: LockError & { readonly part?: string }): boolean {
    const { key } = this.site;
    if (rendered !== undefined || part !== undefined) return false;
    return (
      typeof key !== 'function' ||
      this.decorated.every(({ index, type }) => index >= key.length || type === undefined)
    );
  }

  /** @throws LockConfigurationError for what works on a plain method but not on a handler */
  private checkHandler(): void {
    const { site, kind } = this;
    const { onBusy, when } = this.options;
    if (site.inner) {
      throw this.error(
        `there are two on one handler, and only the upper one is around its pipes and interceptors. Write one for both keys: ${bothKeys(site)}.`,
      );
    }
    if (onBusy === 'skip' && kind === 'http') {
      throw this.error(`onBusy 'skip' would answer 200 with nothing; give a function that makes the answer.`);
    }
    if (typeof site.key === 'function') this.checkFunction('key', site.key);
    // The first argument of `onBusy` is the error, which is not read from the request.
    if (typeof onBusy === 'function') this.checkFunction('onBusy', onBusy, 1);
    if (when) this.checkFunction('when', when);
  }
}

/** The lock that a request or a message holds, and the values from which its keys were made. */
interface LockedArguments {
  readonly lock: Pick<Lock, 'keys'>;
  readonly values: RequestValues;
  readonly isMessage: boolean;
}

/** The plan of a locked method of a class. */
export const lockPlanOf = oncePerMethod((cls, site: LockedSite) => new LockPlan(cls, site));

function bothKeys(site: LockedSite): string {
  const keys = [site.key, site.inner?.key].map((key) =>
    typeof key === 'object' ? key.map(templateCode).join(', ') : undefined,
  );
  return keys.includes(undefined) ? 'a key function that returns a list' : `@Locked([${keys.join(', ')}])`;
}

/** A template as one writes it in `@Locked`. */
function templateCode({ text, claim }: KeyTemplate): string {
  if (claim?.permits === undefined) return claim?.mode ? `${claim.mode}('${text}')` : `'${text}'`;
  return `permits('${text}', ${claim.permits}, ${claim.weight})`;
}
