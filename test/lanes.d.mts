export const TOGETHER: Readonly<Record<string, readonly string[]>>;
