interface Release {
  readonly tag: string;
  /** Where the workflow runs: https://host/owner/name. */
  readonly repository: string;
  readonly manifest: { readonly version: string; readonly repository?: { readonly url: string } };
  readonly changelog: string;
}

/** The faults of a release, in words that say what to do. Empty when it may be published. */
export function releaseProblems(release: Release): string[];
