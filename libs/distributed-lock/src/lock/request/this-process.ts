import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import type { LockClient } from '../../port/lock-client.js';

/** Longer names of an application or of a place in it would fill a line of a log. */
export const MAX_TEXT = 100;
const DEPENDENCIES = /[\\/]node_modules[\\/]/;
let defaultName: string | undefined;

/** The name of an application whose options name none: that of the nearest package.json, or of the process. Read once. */
export function defaultApplication(): string {
  return (defaultName ??= (nearestPackage(startFolder()) ?? process.title).slice(0, MAX_TEXT) || 'node');
}

/** @param since the time of day in ms */
export function thisProcess(application: string, since: number): LockClient {
  return Object.freeze({ application, host: hostname(), process: process.pid, since: new Date(since) });
}

/** The folder of the script that Node was started with, or the working folder where a tool of a package runs the script. */
function startFolder(): string {
  const script = process.argv[1];
  return script === undefined || DEPENDENCIES.test(script) ? process.cwd() : dirname(script);
}

/** The name in the first `package.json` that has one, from `folder` upwards. */
export function nearestPackage(folder: string): string | undefined {
  const name = packageName(join(folder, 'package.json'));
  const parent = dirname(folder);
  return name ?? (parent === folder ? undefined : nearestPackage(parent));
}

function packageName(file: string): string | undefined {
  try {
    const { name } = JSON.parse(readFileSync(file, 'utf8')) as { readonly name?: unknown };
    return typeof name === 'string' && name !== '' ? name : undefined;
  } catch {
    return undefined;
  }
}
