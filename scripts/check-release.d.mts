interface Release {
  readonly tag: string;
  /** Where the workflow runs: https://host/owner/name. */
  readonly repository: string;
  readonly manifest: { readonly version: string; readonly repository: { readonly url: string } };
  readonly changelog: string;
}

/** What is wrong with a release, in words that say what to do. Empty when it may go out. */
export function releaseProblems(release: Release): string[];
