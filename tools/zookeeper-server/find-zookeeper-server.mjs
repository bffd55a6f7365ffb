import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { inHome, installJava } from '../java/index.mjs';
import { fetchZookeeper } from './maven-zookeeper.mjs';

const ADVICE = `No ZooKeeper server was found, and none could be fetched. Do one of these:
  - install a Java and Maven, with which it is fetched from Maven Central:
    apt-get install openjdk-17-jdk-headless maven, or brew install openjdk@17 maven
  - install a Java, and set ZOOKEEPER_HOME to the folder of an unpacked release`;

/** @type {import('./index.d.mts').findZookeeperServer} */
export function findZookeeperServer() {
  const command = findJava() ?? (installJava() ? findJava() : undefined);
  const classPath = command && (chosen() ?? fetched());
  if (!classPath) throw new Error(ADVICE);
  return { command, classPath };
}

function findJava() {
  const java = inHome('JAVA_HOME', 'java');
  return spawnSync(java, ['-version'], { stdio: 'ignore', timeout: 20_000 }).status === 0 ? java : undefined;
}

function chosen() {
  const home = process.env.ZOOKEEPER_HOME;
  if (!home) return undefined;
  const libraries = [join(home, 'lib'), join(home, 'libexec/lib')].find((folder) => existsSync(folder));
  if (!libraries)
    throw new Error(`ZOOKEEPER_HOME (${home}) has no folder lib, as a release of ZooKeeper has.`);
  return join(libraries, '*');
}

function fetched() {
  const folder = fetchZookeeper();
  return folder && join(folder, '*');
}
