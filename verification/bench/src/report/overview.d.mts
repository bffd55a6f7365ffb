/** Markdown of the short page. @param results of runScenario on Redis */
export function overview(results: readonly object[]): { figures: string; asFast: string; compared: string };
