// Runs at boot only: finds out what a locked method declares, and from where each placeholder of its key gets its value.
import type { ExecutionContext } from '@nestjs/common';
import { andThen, type MaybePromise } from '../common/promises.js';
import {
  type AnyClass,
  type AnyFunction,
  handlerOf,
  type HandlerKind,
  type HandlerParameter,
  ROUTE_PARAMETER,
} from '../nest/metadata.js';
import { type Signature, signatureOf } from '../nest/parameter-names.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { type HandlerValues, isReadable, readSource } from './handler-values.js';
import { EACH, valueAtPath, type KeyTemplate, type Placeholder } from './key-template.js';
import type { LockedOptions, LockedSite } from './locked.options.js';

/** What one locked method of one concrete class declares in its decorators and its source. */
export interface MethodShape {
  /** `GoodsController.purchase`, for messages. */
  readonly where: string;
  /** The transport over which Nest calls the method; `undefined` for a method that only other code calls. */
  readonly kind: HandlerKind | undefined;
  /** The parameters that Nest fills in; empty for a method that is no handler. */
  readonly decorated: readonly HandlerParameter[];
  /** The names of the parameters in its source text. */
  readonly signature: Signature;
  /** True for a handler that sends its response itself, perhaps after it has returned. */
  readonly answersItself: boolean;
}

/** Where the value of one placeholder comes from. */
export interface ValueSource {
  /**
   * Reads the value from the method's arguments. `undefined` if the placeholder names a part of the request that no argument
   * contains.
   */
  readonly inArguments?: (args: readonly unknown[]) => unknown;
  /** Reads the value from a request, before Nest calls the handler. */
  readonly inRequest: (context: ExecutionContext, values: HandlerValues) => MaybePromise<unknown>;
  /**
   * How clients know the value, for error messages: `header x-tenant`, `body.sku`. `undefined` for a value that clients do not
   * send.
   */
  readonly part: string | undefined;
}

/**
 * The source names that placeholders may use in each kind of handler, as in `<body.sku>`. The number is Nest's, of the decorator
 * that reads the same source.
 */
const SOURCES: Readonly<Record<HandlerKind, Readonly<Record<string, number | undefined>>>> = {
  http: { params: ROUTE_PARAMETER, query: 4, body: 3, headers: 6, user: undefined },
  rpc: { data: 3 },
  ws: { data: 3 },
  other: { args: 3, user: undefined },
};

const POSITION = /^\d+$/;

export function shapeOf(cls: AnyClass, { method, isStatic, signature }: LockedSite): MethodShape {
  const methods = cls.prototype as Readonly<Record<string | symbol, AnyFunction>> | undefined;
  const fn = isStatic ? undefined : methods?.[method];
  const handler = fn && handlerOf(cls, method, fn);
  return {
    where: `${cls.name}.${String(method)}`,
    kind: handler?.kind,
    decorated: handler?.parameters ?? [],
    signature,
    answersItself: handler?.answersItself ?? false,
  };
}

/**
 * Finds where a placeholder gets its value.
 *
 * @throws LockConfigurationError for a name that the method does not have. The message lists the names that it has.
 */
export function sourceOf(p: Placeholder, template: KeyTemplate, shape: MethodShape): ValueSource {
  const source = shape.kind ? inHandler(p, shape, shape.kind) : inMethod(p, shape);
  if (typeof source === 'object') return source;
  const place = `${p.text} in "${template.text}" at position ${p.position}`;
  throw shapeError(shape, source ? `${place} ${source}` : `unknown ${place}; ${offerOf(shape)}.`);
}

function inMethod(
  { path: [name = '', ...rest] }: Placeholder,
  { signature: { parameters, gap } }: MethodShape,
): ValueSource | undefined {
  const isPosition = POSITION.test(name);
  // A script that is not strict may give two parameters the same name. Its code then reads the last one.
  const index = isPosition ? Number(name) : parameters.findLastIndex((it) => it.name === name);
  const isOpen = gap !== undefined || parameters.some(({ kind }) => kind === 'open');
  if (index < 0 || (index >= parameters.length && !isOpen)) return undefined;
  return {
    inArguments: (args) => valueAtPath(args[index], rest),
    inRequest: () => undefined,
    part: undefined,
  };
}

/**
 * Finds the source of a placeholder in a handler.
 *
 * @returns the source, `undefined` if nothing matches, or the reason as text if several parameters match
 */
function inHandler(p: Placeholder, shape: MethodShape, kind: HandlerKind): ValueSource | string | undefined {
  const { decorated } = shape;
  const [name = '', field, ...deeper] = p.path;
  if (field !== undefined && Object.hasOwn(SOURCES[kind], name)) {
    // If the handler declares this field as a parameter, read it through the pipes of that parameter, so that key and handler get
    // the same value.
    const type = SOURCES[kind][name];
    const declared = decorated.find((it) => type !== undefined && it.type === type && it.data === field);
    if (declared) return ofParameter(declared, kind, deeper);
    const path = [name === 'headers' ? field.toLowerCase() : field, ...deeper];
    return {
      inRequest: (context) => valueAtPath(readSource(name, context), path),
      part: partName([name, ...path]),
    };
  }
  const named = decorated.filter((it) =>
    POSITION.test(name) ? it.index === Number(name) : it.data === name,
  );
  const [parameter, another] = named.filter((it) => isReadable(it, kind));
  if (!another) return parameter && ofParameter(parameter, kind, p.path.slice(1));
  const choices = named.map((it) => {
    const source = decoratorSource(it, kind);
    return `<${source ? `${source}.${name}` : it.index}>`;
  });
  return `may be one of ${named.length} parameters; write ${choices.join(' or ')}.`;
}

function ofParameter(declared: HandlerParameter, kind: HandlerKind, rest: readonly string[]): ValueSource {
  const { index, data } = declared;
  const source = decoratorSource(declared, kind);
  return {
    inArguments: (args) => valueAtPath(args[index], rest),
    inRequest: (context, values) => andThen(values.read(declared, context), (it) => valueAtPath(it, rest)),
    part: source && partName([source, ...(typeof data === 'string' ? [data] : []), ...rest]),
  };
}

/** The name of the source that a decorated parameter reads; `undefined` for a custom decorator of the application. */
function decoratorSource({ type }: HandlerParameter, kind: HandlerKind): string | undefined {
  return Object.entries(SOURCES[kind]).find(([, number]) => number !== undefined && number === type)?.[0];
}

function partName([source = '', ...path]: readonly string[]): string | undefined {
  if (source === 'user') return undefined;
  const name = path.join('.').replaceAll(`.${EACH}`, EACH);
  if (source === 'headers') return `header ${name}`;
  return name === '' ? source : `${source}.${name}`;
}

function offerOf({ kind, decorated, signature: { parameters, gap } }: MethodShape): string {
  if (kind) {
    const names = decorated
      .filter((it) => isReadable(it, kind))
      .flatMap(({ data }) => (typeof data === 'string' ? [data] : []));
    return names.length > 0 ? `the handler reads: ${names.join(', ')}` : 'the handler reads nothing by name';
  }
  const names = parameters.flatMap(({ name }) => name ?? []);
  const known = names.length > 0 ? `the method's arguments are: ${names.join(', ')}` : undefined;
  if (gap === undefined) return known ?? 'the method has no arguments with a name';
  return [known, gap].filter(Boolean).join('; ');
}

function shapeError({ where }: MethodShape, text: string): LockConfigurationError {
  return new LockConfigurationError(`@Locked on ${where}: ${text}`);
}

/**
 * Checks what only handlers cannot do.
 *
 * @throws LockConfigurationError for options that work on a plain method but not on a handler
 */
export function checkHandler(shape: MethodShape, site: LockedSite, { onBusy, when }: LockedOptions): void {
  if (site.inner) {
    throw shapeError(
      shape,
      `there are two on one handler, and only the upper one is around its pipes and interceptors. Write one for both keys: ${bothKeys(site)}.`,
    );
  }
  if (onBusy === 'skip' && shape.kind === 'http') {
    throw shapeError(
      shape,
      `onBusy 'skip' would answer 200 with nothing; give a function that makes the answer.`,
    );
  }
  if (typeof site.key === 'function') checkArguments(shape, 'key', site.key);
  if (typeof onBusy === 'function') checkArguments(shape, 'onBusy', onBusy);
  if (when) checkArguments(shape, 'when', when);
}

function bothKeys(site: LockedSite): string {
  const keys = [site.key, site.inner?.key].map((key) =>
    typeof key === 'object' ? key.map(({ text }) => `'${text}'`).join(', ') : undefined,
  );
  return keys.includes(undefined) ? 'a key function that returns a list' : `@Locked([${keys.join(', ')}])`;
}

/**
 * Checks that the source of `fn` shows which arguments it takes, and that each of them can be read before Nest calls the handler.
 */
function checkArguments(shape: MethodShape, role: 'key' | 'onBusy' | 'when', fn: AnyFunction): void {
  const { decorated, kind } = shape;
  const { parameters, gap } = signatureOf(fn);
  if (parameters.some((it) => it.kind === 'open')) {
    throw shapeError(
      shape,
      `the ${role} function has a default or a rest parameter; a handler's must name each argument plainly.`,
    );
  }
  if (gap !== undefined) {
    throw shapeError(
      shape,
      `it cannot be read which arguments the ${role} function takes, as it is bound, wrapped, or has a "/" between its parentheses. Write a plain function around it that names each of them.`,
    );
  }
  // The first argument of `onBusy` is the error, which is not read from the request.
  const count = role === 'onBusy' ? fn.length - 1 : fn.length;
  const missing = decorated.find((it) => it.index < count && kind && !isReadable(it, kind));
  if (!missing) return;
  throw shapeError(
    shape,
    `argument ${missing.index} of the handler is not there yet when the ${role} function is called.`,
  );
}
