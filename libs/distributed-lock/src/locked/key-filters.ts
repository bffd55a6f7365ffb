/** Brings a value to one written form; `undefined` when the value has none. */
export type KeyFilter = (value: unknown) => unknown;

const INTEGER = /^[+-]?\d+$/;

/** For values that no pipe has been over: `<query.id|int>`. Several are applied from left to right. */
export const KEY_FILTERS: Readonly<Record<string, KeyFilter>> = {
  /** `'042'`, `'+42'` and `42` become `42`, whatever their size. */
  int: (value) => {
    if (typeof value === 'bigint' || Number.isSafeInteger(value)) return value;
    return typeof value === 'string' && INTEGER.test(value) ? BigInt(value.replace(/^\+/, '')) : undefined;
  },
  lower: (value) => (typeof value === 'string' ? value.toLowerCase() : value),
  trim: (value) => (typeof value === 'string' ? value.trim() : value),
};
