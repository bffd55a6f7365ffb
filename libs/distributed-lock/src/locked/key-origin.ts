import { LockConfigurationError } from '../port/lock.errors.js';
import { isReadable } from './handler-values.js';
import { EACH, type KeyTemplate, type Placeholder } from './key-template.js';
import { isHandler, type HandlerShape, type MethodShape } from './method-shape.js';
import { ROUTE_PARAMETER, type HandlerKind, type HandlerParameter } from '../nest/metadata.js';

/** The source of the value of one placeholder: an argument of the method or the request, then a path of properties. */
export type Origin =
  | { readonly argument: number; readonly parameter?: HandlerParameter; readonly rest: readonly string[] }
  | { readonly source: string; readonly rest: readonly string[] };

const SOURCES: Readonly<Record<HandlerKind, readonly string[]>> = {
  http: ['params', 'query', 'body', 'headers', 'user'],
  rpc: ['data'],
  ws: ['data'],
  other: ['args', 'user'],
};

/** Nest's number for the parameter decorators that read the same source. */
const SOURCE_TYPES: Readonly<Record<string, number>> = {
  body: 3,
  query: 4,
  params: ROUTE_PARAMETER,
  headers: 6,
  data: 3,
  args: 3,
};

const POSITION = /^\d+$/;

/** @throws LockConfigurationError for a name that the method does not have, with the names that it has */
export function originOf(p: Placeholder, template: KeyTemplate, shape: MethodShape): Origin {
  const place = `${p.text} in "${template.text}" at position ${p.position}`;
  const origin = isHandler(shape) ? inHandler(p, place, shape) : inMethod(p, shape);
  if (!origin) throw placeholderError(shape, `unknown ${place}; ${offerOf(shape)}.`);
  if (!isWildcard(p, origin, shape)) return origin;
  const advice = `Give a key function, (path: string[]) => lockKey\`…\${path.join('/')}\`, or @Param a pipe that joins them.`;
  throw placeholderError(
    shape,
    `${place} is a wildcard of the route, which Express gives as a list of its segments. ${advice}`,
  );
}

/** The name that clients have for a value: `header x-tenant`, `body.sku`. `undefined` for a value that no client sends. */
export function partNameOf(origin: Origin, kind: HandlerKind): string | undefined {
  const [source, ...path] = 'source' in origin ? [origin.source, ...origin.rest] : inParameter(origin, kind);
  if (source === undefined || source === 'user') return undefined;
  const name = path.join('.').replaceAll(`.${EACH}`, EACH);
  if (source === 'headers') return `header ${name}`;
  return name === '' ? source : `${source}.${name}`;
}

/** The source that the parameter reads, and the path of the value in it. Empty for a decorator of the application. */
function inParameter(
  { parameter, rest }: Extract<Origin, { argument: number }>,
  kind: HandlerKind,
): readonly string[] {
  if (parameter?.type === undefined) return [];
  const source = sourceOf(parameter, kind);
  if (source === undefined) return [];
  return typeof parameter.data === 'string' ? [source, parameter.data, ...rest] : [source, ...rest];
}

function placeholderError({ where }: MethodShape, text: string): LockConfigurationError {
  return new LockConfigurationError(`@Locked on ${where}: ${text}`);
}

/** True for a wildcard that is read as a whole. One element, or each element, can make a key. */
function isWildcard({ isList }: Placeholder, origin: Origin, { wildcards }: MethodShape): boolean {
  if (isList) return false;
  if ('source' in origin) {
    const [name = '', ...deeper] = origin.rest;
    return origin.source === 'params' && deeper.length === 0 && wildcards.includes(name);
  }
  const { parameter, rest } = origin;
  if (parameter?.type !== ROUTE_PARAMETER || parameter.pipes.length > 0) return false;
  return rest.length === 0 && wildcards.includes(String(parameter.data));
}

function inMethod(
  { path: [name = '', ...rest] }: Placeholder,
  { signature: { parameters, gap } }: MethodShape,
): Origin | undefined {
  if (POSITION.test(name)) {
    const argument = Number(name);
    const isOpen = gap !== undefined || parameters.some(({ kind }) => kind === 'open');
    return argument < parameters.length || isOpen ? { argument, rest } : undefined;
  }
  // Of two with one name in a script that is not strict, the code reads the last.
  const argument = parameters.findLastIndex((it) => it.name === name);
  return argument < 0 ? undefined : { argument, rest };
}

function inHandler(
  { path: [name = '', ...rest] }: Placeholder,
  place: string,
  shape: HandlerShape,
): Origin | undefined {
  const { decorated, kind } = shape;
  const [field, ...deeper] = rest;
  if (field !== undefined && SOURCES[kind].includes(name)) {
    // A field that the handler declares is read over its pipes.
    const declared = decorated.find(
      (it) => it.type !== undefined && it.type === SOURCE_TYPES[name] && it.data === field,
    );
    if (declared) return { argument: declared.index, parameter: declared, rest: deeper };
    return { source: name, rest: name === 'headers' ? [field.toLowerCase(), ...deeper] : rest };
  }
  const named = decorated.filter((it) =>
    POSITION.test(name) ? it.index === Number(name) : it.data === name,
  );
  const [parameter, another] = named.filter((it) => isReadable(it, kind));
  if (!parameter) return undefined;
  if (!another) return { argument: parameter.index, parameter, rest };
  const choices = named.map((it) => {
    const source = sourceOf(it, kind);
    return `<${source ? `${source}.${name}` : it.index}>`;
  });
  throw placeholderError(
    shape,
    `${place} may be one of ${named.length} parameters; write ${choices.join(' or ')}.`,
  );
}

function sourceOf({ type }: HandlerParameter, kind: HandlerKind): string | undefined {
  return SOURCES[kind].find((it) => SOURCE_TYPES[it] === type);
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
