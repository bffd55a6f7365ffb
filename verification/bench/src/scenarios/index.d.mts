export const SCENARIOS: readonly any[];
