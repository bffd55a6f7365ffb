/**
 * All properties of options as they are now: hidden ones, too, as a pool of pg hides its password, and those that a class
 * defines by getters, as configuration objects do.
 */
export function readOptions(source: object): Readonly<Record<string, unknown>> {
  const values: Record<string, unknown> = {};
  for (const name of optionNames(source)) values[name] = (source as Record<string, unknown>)[name];
  return values;
}

function optionNames(source: object): ReadonlySet<string> {
  const names = new Set(Object.getOwnPropertyNames(source));
  for (let object = parentOf(source); object && parentOf(object); object = parentOf(object)) {
    const described = Object.entries(Object.getOwnPropertyDescriptors(object));
    for (const [name, property] of described) if ('get' in property || property.enumerable) names.add(name);
  }
  return names;
}

function parentOf(object: object): object | null {
  return Object.getPrototypeOf(object) as object | null;
}

interface LiveSource {
  /** The options of the application, which it may write to at any time. */
  readonly read: () => object | undefined;
  /** What they were when `options` was made from them. */
  readonly first: Readonly<Record<string, unknown>>;
  /** Options of the store's own, which stay as they are. */
  readonly except: object;
  /** A getter of the application has thrown. The last value goes on. */
  readonly onError: (error: unknown) => void;
}

/** Options that an application may add later. */
const LATER = ['username', 'password', 'sentinelUsername', 'sentinelPassword'];

/**
 * Makes the options of a connection follow those of the application from now on: a value that changes there, such as a rotated
 * password, is the one of the next attempt to connect. A value that does not change stays as the library has read it.
 */
export function keepLive(options: object, { read, first, except, onError }: LiveSource): void {
  const values = options as Record<string, unknown>;
  for (const name of new Set([...Object.keys(first), ...LATER])) {
    if (name in except) continue;
    let value = values[name];
    let last = first[name];
    Object.defineProperty(options, name, {
      enumerable: true,
      configurable: true,
      get: () => {
        try {
          const now = (read() as Record<string, unknown> | undefined)?.[name];
          if (now !== last) value = last = now;
        } catch (error) {
          onError(error);
        }
        return value;
      },
      set: (own: unknown) => {
        value = own;
      },
    });
  }
}
