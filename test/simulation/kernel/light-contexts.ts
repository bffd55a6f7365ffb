// Import it before the library, which makes its AsyncLocalStorage as it is loaded.
import hooks from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';
import { promiseHooks } from 'node:v8';

/**
 * One AsyncLocalStorage with its value, and the others. Node 20 gives each promise an id, and puts each reaction on a stack of resources,
 * which takes a twentieth of the time of a history. Here a promise has only the contexts in which it was made, as in Node 24, and none if it
 * was made outside of all contexts.
 *
 * A history goes the same way with Node's own, which `SIMULATION_CONTEXTS=node` brings back.
 */
class Contexts {
  constructor(
    readonly storage: object,
    readonly value: unknown,
    readonly others: Contexts | undefined,
  ) {}
}

const CONTEXTS = Symbol('contexts');
type WithContexts = Promise<unknown> & { [CONTEXTS]?: Contexts };

/** Of the code that runs. */
let current: Contexts | undefined;

function without(contexts: Contexts | undefined, storage: object): Contexts | undefined {
  if (contexts === undefined) return undefined;
  const { others } = contexts;
  if (contexts.storage === storage) return others;
  return new Contexts(contexts.storage, contexts.value, without(others, storage));
}

function runIn<T>(
  contexts: Contexts | undefined,
  work: (...args: unknown[]) => T,
  self: unknown,
  args: unknown[],
): T {
  const before = current;
  current = contexts;
  try {
    return Reflect.apply(work, self, args);
  } finally {
    current = before;
  }
}

class LightStorage {
  run<T>(value: unknown, work: (...args: unknown[]) => T, ...args: unknown[]): T {
    return runIn(new Contexts(this, value, without(current, this)), work, undefined, args);
  }

  enterWith(value: unknown): void {
    current = new Contexts(this, value, without(current, this));
  }

  getStore(): unknown {
    for (let each = current; each; each = each.others) if (each.storage === this) return each.value;
    return undefined;
  }
}

class LightResource {
  private readonly contexts = current;

  static bind<T>(work: (...args: unknown[]) => T): (...args: unknown[]) => T {
    const contexts = current;
    return function (this: unknown, ...args: unknown[]): T {
      return runIn(contexts, work, this, args);
    };
  }

  runInAsyncScope<T>(work: (...args: unknown[]) => T, self?: unknown, ...args: unknown[]): T {
    return runIn(this.contexts, work, self, args);
  }

  emitDestroy(): this {
    return this;
  }
}

function install(): void {
  const nextTick = process.nextTick.bind(process);
  process.nextTick = (work: (...args: unknown[]) => void, ...args: unknown[]): void => {
    const contexts = current;
    if (contexts === undefined) nextTick(work, ...args);
    else nextTick(() => runIn(contexts, work, undefined, args));
  };
  promiseHooks.createHook({
    init: (promise: WithContexts) => {
      if (current !== undefined) promise[CONTEXTS] = current;
    },
    before: (promise: WithContexts) => (current = promise[CONTEXTS]),
    after: () => (current = undefined),
  });
  Object.assign(hooks, { AsyncLocalStorage: LightStorage, AsyncResource: LightResource });
  syncBuiltinESMExports();
}

if (process.env['SIMULATION_CONTEXTS'] !== 'node') install();
