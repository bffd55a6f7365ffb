/**
 * The name of the class whose constructor has called this very code, directly or not: Nest injects nothing before it has ended.
 * `undefined` where the engine does not say so. For messages alone.
 *
 * @param self the object that may be under construction
 */
export function underConstruction(self: unknown): string | undefined {
  const names: unknown[] = [];
  for (let it: unknown = self; typeof it === 'object' && it !== null; it = Object.getPrototypeOf(it)) {
    if (it !== Object.prototype) names.push((it as object).constructor?.name);
  }
  const frame = frames().find((it) => it.isConstructor() && names.includes(it.getFunctionName()));
  return frame?.getFunctionName() ?? undefined;
}

/** The calls that have led here. Not from the text of a stack, because source maps put other names into it. */
function frames(): readonly NodeJS.CallSite[] {
  const { stackTraceLimit } = Error;
  const prepareStackTrace: unknown = Reflect.get(Error, 'prepareStackTrace');
  try {
    Error.stackTraceLimit = Infinity;
    Error.prepareStackTrace = (_error, sites) => sites;
    const { stack } = new Error('for its stack') as { readonly stack?: unknown };
    return Array.isArray(stack) ? (stack as readonly NodeJS.CallSite[]) : [];
  } finally {
    Object.assign(Error, { stackTraceLimit, prepareStackTrace });
  }
}
