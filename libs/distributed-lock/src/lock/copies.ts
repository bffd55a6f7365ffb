import { LockService } from './lock.service.js';

/** The `LockService` of each copy of this package that the process has loaded, by the file that it comes from. */
const SHARED = Symbol.for('nestjs-distributed-lock/copies');
const shared = globalThis as { [SHARED]?: Map<string, typeof LockService> };
const copies = (shared[SHARED] ??= new Map<string, typeof LockService>());
// A test runner that loads modules again and again has one copy.
copies.set(ownFile(), LockService);

function ownFile(): string {
  try {
    return import.meta.url;
  } catch {
    // In some bundles code has no file.
    return 'a bundle';
  }
}

/** The classes that other copies call `LockService`: a constructor that is compiled against one of them asks for that. */
export function otherServices(): readonly (typeof LockService)[] {
  return [...copies.values()].filter((it) => it !== LockService);
}

/** That several copies are loaded, which they are, and what to do. `undefined` if there is one. */
export function copiesText(): string | undefined {
  if (copies.size < 2) return undefined;
  const places = [...copies.keys()].map((file) =>
    file.replace(/^file:\/\/|\/(?:dist\/shared|src\/lock)\/[^/]*$/g, ''),
  );
  return `${copies.size} copies of nestjs-distributed-lock are loaded: ${places.join(' and ')}. Each has classes and errors of its own. Make them one: npm ls nestjs-distributed-lock shows what installs them. A library must have the package in its peerDependencies, and versions that differ must be made the same.`;
}
