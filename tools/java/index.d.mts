/** A program of the JDK or of Maven: that of the folder in `variable` where it is set, otherwise that of the PATH. */
export function inHome(variable: 'JAVA_HOME' | 'MAVEN_HOME', program: string): string;

/**
 * Installs a JDK and Maven, but only on a machine of a continuous integration, as root (Debian, Ubuntu).
 *
 * @returns whether they are installed now
 */
export function installJava(): boolean;
