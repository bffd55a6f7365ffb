/**
 * The command of another runtime, which is fetched once from the package registry.
 *
 * @returns `undefined` where there is none for this machine
 */
export function fetchRuntime(runtime: 'Node 22' | 'Node 24' | 'Bun'): string | undefined;
