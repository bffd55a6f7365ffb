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
  const version = versionOf('redisson');
  return [
    lock('redisson', `Redisson ${version} (Java)`, 'lock'),
    lock('redisson-fair', `Redisson ${version} (Java), fair`, 'fair'),
  ];
}

/** Curator's lock on ZooKeeper, in a JVM with its own settings. @returns {import('./index.mjs').Entrant} */
export const curator = () =>
  lock('curator', `Curator ${versionOf('curator-recipes')} (Java), InterProcessMutex`, 'curator');

/** @param {string} artifact */
function versionOf(artifact) {
  const after = readFileSync(POM, 'utf8').split(`<artifactId>${artifact}</artifactId>`)[1];
  return /<version>(.+?)<\/version>/.exec(after)[1];
}

/** @param {string} id @param {string} name @param {string} kind of verification/interop/src/main/java/interop/Contestant.java */
const lock = (id, name, kind) => ({
  id,
  name,
  warmUp: WARM_UP,
  prepare() {
    java ??= findJava(name.split(' ')[0]);
    return java ? { command: [java.command, '-cp', java.jar, MAIN, kind] } : { skipped: SKIPPED };
  },
});

/** Prints the reason why it is left out. @param {string} library */
function findJava(library) {
  try {
    return javaService({ installs: 'never' });
  } catch (error) {
    console.error(`${library} is left out. ${error.message}`);
    return false;
  }
}
