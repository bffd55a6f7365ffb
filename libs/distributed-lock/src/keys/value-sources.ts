// Where each placeholder of a key template gets its value. `KeyPlan` asks once for each method, at boot or at its first call.
import type { ExecutionContext } from '@nestjs/common';
import { andThen, type MaybePromise } from '../common/promises.js';
import { type HandlerValues, isReadable, readSource } from '../nest/handler-values.js';
import { type HandlerKind, type HandlerParameter, ROUTE_PARAMETER } from '../nest/metadata.js';
import type { Signature } from '../nest/parameter-names.js';
import { EACH, type Placeholder, valueAtPath } from './key-template.js';

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

/** What a method offers to placeholders: as a handler its decorated parameters, otherwise the names in its source text. */
interface MethodShape {
  readonly kind: HandlerKind | undefined;
  readonly decorated: readonly HandlerParameter[];
  readonly signature: Signature;
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

/**
 * Finds where a placeholder gets its value.
 *
 * @returns the source; `undefined` for a name that the method does not have; or as text, why the name does not decide
 */
export function sourceOf(
  p: Placeholder,
  { kind, decorated, signature }: MethodShape,
): ValueSource | string | undefined {
  return kind ? inHandler(p, decorated, kind) : inMethod(p, signature);
}

function inMethod(
  { path: [name = '', ...rest] }: Placeholder,
  { parameters, gap }: Signature,
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

function inHandler(
  p: Placeholder,
  decorated: readonly HandlerParameter[],
  kind: HandlerKind,
): ValueSource | string | undefined {
  const [name = '', field, ...deeper] = p.path;
  if (field !== undefined && Object.hasOwn(SOURCES[kind], name)) {
    // If the handler declares this field as a parameter, read it through the pipes of that parameter, so that key and handler get
    // the same value.
    const type = SOURCES[kind][name];
    const declared = decorated.find((it) => type !== undefined && it.type === type && it.data === field);
    if (declared) return ofParameter(declared, kind, deeper);
    const path = [name === 'headers' ? field.toLowerCase() : field, ...deeper];
    return {
      inRequest: (context) => valueAtPath(readSource(type, context), path),
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

/** The names that a placeholder could use instead, for the message about one that the method does not have. */
export function offerOf({ kind, decorated, signature: { parameters, gap } }: MethodShape): string {
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
