/** How to start the Java service: append its options as one JSON argument (README.md). */
export interface JavaService {
  readonly command: string;
  readonly args: readonly string[];
  /** The path of the jar, to start another of its classes, or with other settings of the JVM. */
  readonly jar: string;
}

/**
 * Builds the jar if its sources are newer, and says how to run it. Java is that of `JAVA_HOME` or the PATH, Maven that
 * of `MAVEN_HOME` or the PATH. If both are missing and `CI` is set, they are installed (Debian, Ubuntu, as root),
 * unless `installs` is 'never'.
 *
 * @throws Error that says what to do when there is no JDK 17 or no Maven, or when the build fails
 */
export function javaService(options?: { readonly installs?: 'in CI' | 'never' }): JavaService;
