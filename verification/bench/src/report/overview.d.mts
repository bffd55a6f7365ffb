/** Markdown of the short page. @param results of runScenario on Redis */
export function overview(results: readonly object[]): {
  readonly figures: string;
  readonly asFast: string;
  readonly compared: string;
  readonly readme: any;
};
