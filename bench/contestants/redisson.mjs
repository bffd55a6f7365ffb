import { readFileSync } from 'node:fs';
import { javaService } from '../../interop/index.mjs';

const POM = new URL('../../interop/pom.xml', import.meta.url);
const MAIN = 'interop.Contestant';
/** Just-in-time compilers of a JVM take longer than Node's: they count calls, and work in the background. */
const WARM_UP = { leastMs: 5000, longestMs: 20_000 };

const SKIPPED = 'needs a JDK 17 and Maven';
/** Set once, by the first search. @type {import('../../interop/index.d.mts').JavaService | false | undefined} */
let java;

/** Two of Redisson's locks, in a JVM with its own settings. @returns {import('./index.mjs').Entrant[]} */
export function redisson() {
  const [, version] = /<artifactId>redisson<\/artifactId>\s*<version>(.+?)<\/version>/.exec(
    readFileSync(POM, 'utf8'),
  );
  return [
    lock('redisson', `Redisson ${version} (Java)`, 'lock'),
    lock('redisson-fair', `Redisson ${version} (Java), fair`, 'fair'),
  ];
}

/** @param {string} id @param {string} name @param {string} kind of interop/src/main/java/interop/Locks.java */
const lock = (id, name, kind) => ({
  id,
  name,
  warmUp: WARM_UP,
  prepare() {
    java ??= findJava();
    return java ? { command: [java.command, '-cp', java.jar, MAIN, kind] } : { skipped: SKIPPED };
  },
});

/** Prints the reason why Redisson is left out. */
function findJava() {
  try {
    return javaService({ installs: 'never' });
  } catch (error) {
    console.error(`Redisson is left out. ${error.message}`);
    return false;
  }
}
