import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { cachedFolder } from '../cached-folder/index.mjs';
import { inHome, installJava } from '../java/index.mjs';

const POM = fileURLToPath(new URL('pom.xml', import.meta.url));
const COPY = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies';
const VERSION = /<artifactId>zookeeper<\/artifactId>\s*<version>(.+?)</;

/** @returns {string | undefined} the folder of ZooKeeper's libraries, from Maven Central */
export function fetchZookeeper() {
  const version = VERSION.exec(readFileSync(POM, 'utf8'))?.[1];
  return cachedFolder(`zookeeper-${version}`, copyInto);
}

/** Maven reports errors on stdout, so both outputs go to stderr. @param {string} folder */
function copyInto(folder) {
  const words = ['-q', '-B', '-ntp', '-Dstyle.color=never', '-f', POM, COPY, '-DincludeScope=runtime'];
  const maven = () =>
    spawnSync(inHome('MAVEN_HOME', 'mvn'), [...words, `-DoutputDirectory=${folder}`], {
      cwd: folder,
      stdio: ['ignore', 2, 2],
    }).status === 0;
  return maven() || (installJava() && maven());
}
