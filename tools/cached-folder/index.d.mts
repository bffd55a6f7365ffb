/**
 * The folder node_modules/.cache/`name`. `fill` makes its content once, in a staging folder that gets the name only when
 * `fill` returns true, so that no process sees half of it.
 *
 * @returns `undefined` where `fill` returns false
 */
export function cachedFolder(name: string, fill: (staging: string) => boolean): string | undefined;
