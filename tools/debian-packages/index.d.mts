/** Packages that are unpacked but not installed. */
export interface UnpackedPackages {
  /** The root of their files, as `usr/bin`. */
  readonly folder: string;
  /** To run their programs with the libraries that came with them. */
  readonly env: NodeJS.ProcessEnv;
}

/**
 * Downloads the distribution's packages (Debian, Ubuntu) with what they need, and unpacks them to
 * node_modules/.cache/`name`, once. Installs nothing and needs no root; only empty package lists need root once.
 *
 * @returns `undefined` where there are none to be had
 */
export function unpackDebianPackages(name: string, packages: readonly string[]): UnpackedPackages | undefined;
