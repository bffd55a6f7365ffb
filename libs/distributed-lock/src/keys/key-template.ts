// Key templates and their escaping. A decorator compiles its template when the class is loaded, and each call renders it;
// `lockKey` makes the same keys by hand.
import { claimFor, isKeyClaim, type KeyClaim, keyOf } from '../lock/request/key-claim.js';
import { LockConfigurationError, LockKeyError } from '../port/lock.errors.js';
import { describeGiven } from '../port/option-checks.js';
import { foreignPlaceholder } from './foreign-placeholders.js';

const INTEGER = /^([+-]?)(\d+)$/;

/**
 * The filters that a placeholder may apply to a value, for values that no pipe has changed: `<query.id|int>`. Applied from left
 * to right.
 */
export const KEY_FILTERS: Readonly<Record<string, KeyFilter>> = {
  /** Makes `'042'`, `'+42'` and `42` all `42`. Works on the text, because parsing a long number as a BigInt is slow. */
  int: (value) => {
    if (typeof value === 'bigint' || Number.isSafeInteger(value)) return value;
    const [, sign, digits] = (typeof value === 'string' && INTEGER.exec(value)) || [];
    const shortest = digits?.replace(/^0+(?=\d)/, '');
    return sign === '-' && shortest !== '0' ? `-${shortest}` : shortest;
  },
  lower: (value) => (typeof value === 'string' ? value.toLowerCase() : value),
  trim: (value) => (typeof value === 'string' ? value.trim() : value),
};

/** Maps all spellings of a value to one, so that they make the same key; `undefined` for a value that it cannot normalise. */
type KeyFilter = (value: unknown) => unknown;

/** In the path of a placeholder: every element of this list. */
export const EACH = '[]';

/**
 * A character that an escaped value never contains. Two placeholders need one between them. Otherwise the values `1-2`, `3` and
 * `1`, `2-3` would make the same key.
 */
const SEPARATOR = /[^\w%.~-]/;

const PATH = /^[\w$-]+(\[\])?(\.[\w$-]+(\[\])?)*$/;

/**
 * A key with placeholders: compiled once, rendered at each call.
 *
 * `<id>`, `<body.user.id>`, `<0.sku>`: a value by name or position, then properties. `<query.id|int|lower>`: filters.
 * `<body.items[].sku>`: one key for each element; at most one such list in a template.
 */
export class KeyTemplate {
  private constructor(
    readonly text: string,
    /** How the keys are held, if not as the options say. */
    readonly claim: KeyClaim | undefined,
    /** The text before the first placeholder. */
    private readonly start: string,
    readonly placeholders: readonly Placeholder[],
  ) {}

  /** @throws LockConfigurationError that names the position of the mistake */
  static compile(source: string | KeyClaim): KeyTemplate {
    const text = keyOf(source);
    if (text === '') throw templateError(text, 'is empty');
    const [start = '', ...parts] = text.split('<');
    let position = start.length;
    const placeholders = parts.map((part) => {
      const placeholder = placeholderOf(text, part, position);
      position += part.length + 1;
      return placeholder;
    });
    const foreign = foreignPlaceholder(text);
    if (foreign) {
      throw templateError(
        text,
        `has ${foreign.text} at position ${foreign.position}, which is plain text here, the same for every call: write "${foreign.instead}". If it is meant as it stands, make the key by a function, with lockKey\`…\``,
      );
    }
    for (const [i, next] of placeholders.slice(1).entries()) {
      const one = placeholders[i] as Placeholder;
      if (SEPARATOR.test(one.textAfter)) continue;
      throw templateError(
        text,
        `has nothing between ${one.text} and ${next.text} at position ${next.position} that a value cannot contain: write ":" there`,
      );
    }
    if (placeholders.filter((p) => p.isList).length > 1) {
      throw templateError(text, 'has more than one list: use a key function');
    }
    return new KeyTemplate(text, isKeyClaim(source) ? source : undefined, start, placeholders);
  }

  /**
   * Renders the keys for these values: one key, or one for each element if the template contains a list.
   *
   * @throws LockKeyError that names the placeholder and the type of its value, but not the value
   */
  render(values: PlaceholderValues): readonly string[] {
    const list = this.placeholders.find((p) => p.isList);
    if (!list) return [this.renderOne(values)];
    const elements = values.valueOf(list);
    if (!Array.isArray(elements) || elements.length === 0) {
      throw this.valueError(list, `${kindOf(elements)}, not a list of values`, values);
    }
    return elements.map((element: unknown) =>
      this.renderOne({ ...values, valueOf: (p) => (p === list ? element : values.valueOf(p)) }),
    );
  }

  /** Renders the keys, each with the claim of the template. @throws LockKeyError as `render` does */
  renderClaims(values: PlaceholderValues): readonly (string | KeyClaim)[] {
    const { claim } = this;
    const keys = this.render(values);
    return claim ? keys.map((key) => claimFor(claim, key)) : keys;
  }

  private renderOne(values: PlaceholderValues): string {
    return this.placeholders.reduce((key, p) => key + this.valueText(p, values) + p.textAfter, this.start);
  }

  private valueText(p: Placeholder, values: PlaceholderValues): string {
    let value = values.valueOf(p);
    for (const name of p.filters) {
      value = KEY_FILTERS[name]?.(value);
      if (value === undefined) throw this.valueError(p, `not accepted by the filter ${name}`, values);
    }
    const escaped = escapeKeyValue(value);
    if (escaped === undefined) throw this.valueError(p, `${kindOf(value)}: ${KEY_VALUE_RULE}`, values);
    return escaped;
  }

  private valueError(p: Placeholder, what: string, { partOf }: PlaceholderValues): LockKeyError {
    const message = `No key from "${this.text}": the value of ${p.text} at position ${p.position} is ${what}.`;
    return new LockKeyError(message, undefined, partOf?.(p));
  }
}

/** One `<…>` of a template. */
export interface Placeholder {
  /** The placeholder as written, with its brackets. */
  readonly text: string;
  /** The index of its `<` in the template. */
  readonly position: number;
  /** `body.items[].sku` → `['body', 'items', EACH, 'sku']`. */
  readonly path: readonly string[];
  readonly isList: boolean;
  readonly filters: readonly string[];
  /** The constant text between this placeholder and the next one, or the end. */
  readonly textAfter: string;
}

interface PlaceholderValues {
  /** Returns the value of a placeholder; an array for a placeholder whose path goes through a list. */
  readonly valueOf: (p: Placeholder) => unknown;
  /** Returns how clients know the value of a placeholder, as in `body.sku`, for `LockKeyError.part`. */
  readonly partOf?: (p: Placeholder) => string | undefined;
}

/** Reads the value at `path` in `root`. Returns an array if the path goes through a list. */
export function valueAtPath(root: unknown, path: readonly string[]): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return root;
  if (step === EACH) return Array.isArray(root) ? root.map((element) => valueAtPath(element, rest)) : root;
  if (root === undefined || root === null) return undefined;
  return valueAtPath((root as Readonly<Record<string, unknown>>)[step], rest);
}

/** @param part the template from behind one `<` up to the next */
function placeholderOf(template: string, part: string, position: number): Placeholder {
  const close = part.indexOf('>');
  if (close < 0) throw templateError(template, `has an unclosed "<" at position ${position}`);
  const [path = '', ...filters] = part.slice(0, close).split('|');
  const text = `<${part.slice(0, close)}>`;
  const place = `in ${text} at position ${position}`;
  if (!PATH.test(path)) throw templateError(template, `has no name or path ${place}`);
  const steps = path.split('.').flatMap((step) => (step.endsWith(EACH) ? [step.slice(0, -2), EACH] : [step]));
  const lists = steps.filter((step) => step === EACH).length;
  if (lists > 1) throw templateError(template, `has a list in a list ${place}`);
  const unknown = filters.find((name) => !Object.hasOwn(KEY_FILTERS, name));
  if (unknown !== undefined) {
    const known = Object.keys(KEY_FILTERS).join(', ');
    throw templateError(template, `has an unknown filter "${unknown}" ${place}; there are: ${known}`);
  }
  return { text, position, path: steps, isList: lists > 0, filters, textAfter: part.slice(close + 1) };
}

function templateError(template: string, what: string): LockConfigurationError {
  return new LockConfigurationError(`Key template "${template}" ${what}.`);
}

const LONE_SURROGATE = /\p{Surrogate}/u;
/** The common case: a value in which nothing has to be escaped. */
const UNRESERVED = /^[\w.~-]+$/;

/** A value that can be part of a key. Strings must not be empty, numbers must be finite. */
export type KeyValue = string | number | bigint | boolean;

/**
 * Writes one value into a key so that no value can be mistaken for the text around it.
 *
 * Letters `A–Z a–z`, digits and `-` `.` `_` `~` stay (the unreserved characters of RFC 3986). Every other byte of the
 * UTF-8 form becomes `%` and two upper-case hex digits. This is part of the public contract, so that a service in
 * another language can build the same key.
 *
 * @returns `undefined` for a value that cannot be part of a key
 */
function escapeKeyValue(value: unknown): string | undefined {
  switch (typeof value) {
    case 'string':
      if (UNRESERVED.test(value)) return value;
      return value === '' || LONE_SURROGATE.test(value) ? undefined : percentEncode(value);
    case 'number':
      return Number.isFinite(value) ? escapeKeyValue(String(value)) : undefined;
    case 'bigint':
    case 'boolean':
      return String(value);
    default:
      return undefined;
  }
}

/**
 * Builds a key by hand with the same escaping as the templates of `@Locked`: ``lockKey`goods:${id}` ``.
 *
 * @throws LockKeyError for a value that cannot be part of a key
 * @example
 * ```ts
 * await locks.withLock(lockKey`goods:${'a/b'}`, (lock) => console.log(lock.key)); // goods:a%2Fb
 * ```
 */
export function lockKey(texts: TemplateStringsArray, ...values: readonly KeyValue[]): string {
  return texts.reduce((key, text, i) => {
    const escaped = escapeKeyValue(values[i - 1]);
    if (escaped === undefined) {
      throw new LockKeyError(
        `Value ${i} after "${key}" is ${kindOf(values[i - 1])}: ${KEY_VALUE_RULE}.`,
        undefined,
      );
    }
    return key + escaped + text;
  });
}

const KEY_VALUE_RULE = 'a key needs a non-empty string, a finite number, a bigint or a boolean';

/** Describes a value without repeating it, because it may be secret. */
function kindOf(value: unknown): string {
  if (typeof value === 'number') return String(value);
  if (typeof value === 'string' && LONE_SURROGATE.test(value)) return 'a string of broken UTF-16';
  return Array.isArray(value) && value.length === 0 ? 'an empty list' : describeGiven(value);
}

function percentEncode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
