export const TOGETHER: Readonly<Record<string, readonly string[]>>;
export const SLOW_LANE: readonly string[];
export const ON_EACH_NODE: readonly string[];
