import { LockConfigurationError, LockKeyError } from '../port/lock.errors.js';
import { foreignPlaceholder } from './foreign-placeholders.js';
import { escapeKeyValue, kindOf, NEEDED } from './key-value.js';

const INTEGER = /^([+-]?)(\d+)$/;

/** For values that no pipe has changed: `<query.id|int>`. Several are applied from left to right. */
export const KEY_FILTERS: Readonly<Record<string, KeyFilter>> = {
  /** `'042'`, `'+42'` and `42` become `42`. Works on text, because a long BigInt takes long to make. */
  int: (value) => {
    if (typeof value === 'bigint' || Number.isSafeInteger(value)) return value;
    const [, sign, digits] = (typeof value === 'string' && INTEGER.exec(value)) || [];
    const shortest = digits?.replace(/^0+(?=\d)/, '');
    return sign === '-' && shortest !== '0' ? `-${shortest}` : shortest;
  },
  lower: (value) => (typeof value === 'string' ? value.toLowerCase() : value),
  trim: (value) => (typeof value === 'string' ? value.trim() : value),
};

/** Brings a value to one written form; `undefined` when the value has none. */
type KeyFilter = (value: unknown) => unknown;

/** The step of a path that means each element of a list. */
export const EACH = '[]';

/** A character that no escaped value contains. Without one in between, `1-2`, `3` and `1`, `2-3` would make the same key. */
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
    /** The texts before, between and after the placeholders. */
    private readonly texts: readonly string[],
    readonly placeholders: readonly Placeholder[],
  ) {}

  /** @throws LockConfigurationError that names the position of the mistake */
  static compile(text: string): KeyTemplate {
    const texts: string[] = [];
    const placeholders: Placeholder[] = [];
    let end = 0;
    for (let open = text.indexOf('<'); open >= 0; open = text.indexOf('<', end)) {
      const close = text.indexOf('>', open);
      const isClosed = close >= 0 && !text.slice(open + 1, close).includes('<');
      if (!isClosed) throw templateError(text, `has an unclosed "<" at position ${open}`);
      texts.push(text.slice(end, open));
      placeholders.push(placeholder(text, open, close));
      end = close + 1;
    }
    if (text === '') throw templateError(text, 'is empty');
    const foreign = foreignPlaceholder(text);
    if (foreign) {
      throw templateError(
        text,
        `has ${foreign.text} at position ${foreign.position}, which is plain text here, the same for every call: write "${foreign.instead}". If it is meant as it stands, make the key by a function, with lockKey\`…\``,
      );
    }
    const merged = placeholders.findIndex((_, i) => i > 0 && !SEPARATOR.test(texts[i] ?? ''));
    if (merged > 0) {
      const [one, next] = placeholders.slice(merged - 1) as [Placeholder, Placeholder];
      throw templateError(
        text,
        `has nothing between ${one.text} and ${next.text} at position ${next.position} that a value cannot contain: write ":" there`,
      );
    }
    if (placeholders.filter((p) => p.isList).length > 1) {
      throw templateError(text, 'has more than one list: use a key function');
    }
    return new KeyTemplate(text, [...texts, text.slice(end)], placeholders);
  }

  /**
   * The keys for these values: one, or one for each element of the list.
   *
   * @param values parallel to `placeholders`; an array for the list
   * @param partOf the name that clients have for the value of a placeholder, for `LockKeyError.part`
   * @throws LockKeyError that names the placeholder, and the kind of its value but not the value
   */
  render(values: readonly unknown[], partOf: PartOf = () => undefined): readonly string[] {
    const list = this.placeholders.findIndex((p) => p.isList);
    if (list < 0) return [this.renderOne(values, partOf)];
    const elements = values[list];
    if (!Array.isArray(elements) || elements.length === 0) {
      throw this.valueError(list, `${kindOf(elements)}, not a list of values`, partOf);
    }
    return elements.map((element: unknown) => this.renderOne(values.with(list, element), partOf));
  }

  private renderOne(values: readonly unknown[], partOf: PartOf): string {
    return this.texts.reduce((key, text, i) => key + this.valueText(i - 1, values[i - 1], partOf) + text);
  }

  private valueText(index: number, value: unknown, partOf: PartOf): string {
    let filtered = value;
    for (const filter of this.placeholders[index]?.filters ?? []) {
      filtered = filter.apply(filtered);
      if (filtered === undefined)
        throw this.valueError(index, `not accepted by the filter ${filter.name}`, partOf);
    }
    const escaped = escapeKeyValue(filtered);
    if (escaped === undefined) throw this.valueError(index, `${kindOf(filtered)}: ${NEEDED}`, partOf);
    return escaped;
  }

  private valueError(index: number, what: string, partOf: PartOf): LockKeyError {
    const placeholder = this.placeholders[index] as Placeholder;
    const { text, position } = placeholder;
    const message = `No key from "${this.text}": the value of ${text} at position ${position} is ${what}.`;
    return new LockKeyError(message, undefined, partOf(placeholder));
  }
}

/** One `<…>` of a template. */
export interface Placeholder {
  /** The placeholder with its brackets. */
  readonly text: string;
  /** The index of its `<` in the template. */
  readonly position: number;
  /** `body.items[].sku` → `['body', 'items', EACH, 'sku']`. */
  readonly path: readonly string[];
  readonly isList: boolean;
  readonly filters: readonly { readonly name: string; readonly apply: KeyFilter }[];
}

type PartOf = (placeholder: Placeholder) => string | undefined;

/** The value at `path` in `root`. An array, if the path goes through a list. */
export function follow(root: unknown, path: readonly string[]): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return root;
  if (step === EACH) return Array.isArray(root) ? root.map((element) => follow(element, rest)) : root;
  if (root === undefined || root === null) return undefined;
  return follow((root as Readonly<Record<string, unknown>>)[step], rest);
}

function placeholder(template: string, open: number, close: number): Placeholder {
  const [path = '', ...filters] = template.slice(open + 1, close).split('|');
  const text = template.slice(open, close + 1);
  if (!PATH.test(path)) throw templateError(template, `has no name or path in ${text} at position ${open}`);
  const steps = path.split('.').flatMap((part) => (part.endsWith(EACH) ? [part.slice(0, -2), EACH] : [part]));
  const lists = steps.filter((step) => step === EACH).length;
  if (lists > 1) throw templateError(template, `has a list in a list in ${text} at position ${open}`);
  return {
    text,
    position: open,
    path: steps,
    isList: lists > 0,
    filters: filters.map((name) => {
      const apply = Object.hasOwn(KEY_FILTERS, name) ? KEY_FILTERS[name] : undefined;
      if (apply) return { name, apply };
      const known = Object.keys(KEY_FILTERS).join(', ');
      throw templateError(
        template,
        `has an unknown filter "${name}" in ${text} at position ${open}; there are: ${known}`,
      );
    }),
  };
}

function templateError(template: string, what: string): LockConfigurationError {
  return new LockConfigurationError(`Key template "${template}" ${what}.`);
}
