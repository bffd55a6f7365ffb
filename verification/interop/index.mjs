import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inHome, installJava } from '#java';

const ROOT = fileURLToPath(new URL('.', import.meta.url));
const JAR = join(ROOT, 'target/interop.jar');
const OLDEST_JAVA = 17;
const BUILD_MS = 300_000;
const ADVICE = `needed: a JDK of version ${OLDEST_JAVA} or later and Maven, by JAVA_HOME and MAVEN_HOME or on the PATH:
  apt-get install openjdk-17-jdk-headless maven, or brew install openjdk@17 maven`;

/** @type {import('./index.d.mts').javaService} */
export function javaService({ installs = 'in CI' } = {}) {
  const java = findJava() ?? (installs === 'in CI' && installJava() && findJava());
  if (!java) throw new Error(`No Java was found; ${ADVICE}`);
  if (!isBuilt()) build();
  // One thread for garbage collections, since the JVM shares few cores with Redis and the tests.
  return { command: java, args: ['-Xmx256m', '-XX:+UseSerialGC', '-jar', JAR], jar: JAR };
}

function findJava() {
  const java = inHome('JAVA_HOME', 'java');
  const { stdout } = spawnSync(java, ['--version'], { encoding: 'utf8' });
  const version = Number(/^\w+ (\d+)/.exec(stdout ?? '')?.[1]);
  return version >= OLDEST_JAVA ? java : undefined;
}

function isBuilt() {
  if (!existsSync(JAR)) return false;
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' });
  const files = [join(ROOT, 'pom.xml'), ...sources.map((file) => join(ROOT, 'src', file))];
  const builtAt = statSync(JAR).mtimeMs;
  return files.every((file) => statSync(file).mtimeMs < builtAt);
}

function build() {
  const maven = inHome('MAVEN_HOME', 'mvn');
  const args = ['-q', '-B', '-ntp', '-f', join(ROOT, 'pom.xml'), 'package'];
  const { status, error, stdout } = spawnSync(maven, args, { encoding: 'utf8', timeout: BUILD_MS });
  if (error) throw new Error(`Maven could not be run (${error.message}); ${ADVICE}`);
  if (status !== 0) throw new Error(`Maven could not build verification/interop/:\n${stdout}`);
}
