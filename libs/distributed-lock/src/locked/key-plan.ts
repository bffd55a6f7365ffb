import type { ExecutionContext } from '@nestjs/common';
import { LockKeyError } from '../lock/lock.errors.js';
import type { CallOptions, Keys } from '../lock/lock.js';
import { callOptions } from './busy-answer.js';
import { checkHandler } from './handler-checks.js';
import { readSource, whenThere, type HandlerValues } from './handler-values.js';
import { originOf, type Origin } from './key-origin.js';
import { follow, type KeyTemplate, type Placeholder } from './key-template.js';
import { optionsOf, type AnyClass, type LockedSite } from './locked-site.js';
import { checkTogether, type LockedOptions } from './locked.options.js';
import { shapeOf, type MethodShape } from './method-shape.js';

/** How one locked method of one concrete class gets its keys and options. Made once, at boot or at the first call. */
export class KeyPlan {
  private static readonly plans = new WeakMap<AnyClass, Map<LockedSite, KeyPlan>>();
  /** Options of `@Locked` over those of `@LockDefaults`. */
  readonly options: LockedOptions;
  /** Of these, what the service is told at each call. */
  readonly call: CallOptions;
  private readonly shape: MethodShape;
  private readonly origins = new Map<Placeholder, Origin>();

  /** @throws LockConfigurationError for a name that the method does not have, or options that do not fit it */
  private constructor(
    cls: AnyClass,
    private readonly site: LockedSite,
  ) {
    this.options = optionsOf(cls, site);
    this.call = callOptions(this.options);
    this.shape = shapeOf(cls, site);
    checkTogether(this.shape.where, this.options);
    for (const template of typeof site.key === 'function' ? [] : site.key) {
      for (const p of template.placeholders) this.origins.set(p, originOf(p, template, this.shape));
    }
    const { kind } = this.shape;
    if (kind) checkHandler({ ...this.shape, kind }, site, this.options);
  }

  static of(cls: AnyClass, site: LockedSite): KeyPlan {
    let plans = KeyPlan.plans.get(cls);
    if (!plans) KeyPlan.plans.set(cls, (plans = new Map<LockedSite, KeyPlan>()));
    let plan = plans.get(site);
    if (!plan) plans.set(site, (plan = new KeyPlan(cls, site)));
    return plan;
  }

  /** `GoodsController.purchase`, for messages. */
  get where(): string {
    return this.shape.where;
  }

  /** The keys of a plain call. @throws LockKeyError */
  keysOfCall(args: readonly unknown[]): Keys {
    const { key } = this.site;
    if (typeof key === 'function') return this.checked(Reflect.apply(key, undefined, args));
    return key.flatMap((template) =>
      template.render(template.placeholders.map((p) => this.valueInCall(p, args))),
    );
  }

  /**
   * The keys of a call that Nest is about to make, or a promise of them.
   *
   * @throws LockKeyError, or what the pipes throw
   */
  keysOfRequest(context: ExecutionContext, values: HandlerValues): Keys | PromiseLike<Keys> {
    const { key } = this.site;
    if (typeof key === 'function') {
      const args = this.argumentsOf(key.length, context, values);
      return args.then((given) => this.checked(Reflect.apply(key, undefined, given)));
    }
    const [template, others] = [key[0] as KeyTemplate, key.length > 1];
    const [only, another] = template.placeholders;
    if (!only || another || others) return this.keysOfTemplates(key, context, values);
    return whenThere(this.valueInRequest(only, context, values), (value) => template.render([value]));
  }

  private async keysOfTemplates(
    templates: readonly KeyTemplate[],
    context: ExecutionContext,
    values: HandlerValues,
  ): Promise<Keys> {
    const keys: string[] = [];
    for (const template of templates) {
      const reads = template.placeholders.map(async (p) => this.valueInRequest(p, context, values));
      keys.push(...template.render(await Promise.all(reads)));
    }
    return keys;
  }

  /** The first `count` arguments that Nest is about to give to the handler. */
  argumentsOf(count: number, context: ExecutionContext, values: HandlerValues): Promise<unknown[]> {
    return Promise.all(
      Array.from({ length: count }, async (_, index) => {
        const parameter = this.shape.decorated.find((it) => it.index === index);
        return parameter && (await values.read(parameter, context));
      }),
    );
  }

  private valueInCall(p: Placeholder, args: readonly unknown[]): unknown {
    const origin = this.origins.get(p) as Origin;
    if ('argument' in origin) return follow(args[origin.argument], origin.rest);
    const message = `No key for ${this.where}: ${p.text} is a part of a request, and this is a plain call of the method.`;
    throw new LockKeyError(message, undefined);
  }

  /** The value, or a promise of it. */
  private valueInRequest(p: Placeholder, context: ExecutionContext, values: HandlerValues): unknown {
    const origin = this.origins.get(p) as Origin;
    if ('source' in origin) return follow(readSource(origin.source, context), origin.rest);
    const value = origin.parameter && values.read(origin.parameter, context);
    return origin.rest.length > 0 ? whenThere(value, (it) => follow(it, origin.rest)) : value;
  }

  /** A key function may be plain JavaScript: what it gives is not trusted. */
  private checked(keys: Keys): Keys {
    if (typeof keys === 'string' || Array.isArray(keys)) return keys;
    throw new LockKeyError(
      `The key function of @Locked on ${this.where} gave no string and no list.`,
      undefined,
    );
  }
}
