const INTEGER = /^([+-]?)(\d+)$/;

/** For values that no pipe has changed: `<query.id|int>`. Several are applied from left to right. */
export const KEY_FILTERS: Readonly<Record<string, KeyFilter>> = {
  /** `'042'`, `'+42'` and `42` become `42`. Works on text, because a long BigInt takes long to make. */
  int: (value) => {
    if (typeof value === 'bigint' || Number.isSafeInteger(value)) return value;
    const [, sign, digits] = (typeof value === 'string' && INTEGER.exec(value)) || [];
    const shortest = digits?.replace(/^0+(?=\d)/, '');
    return sign === '-' && shortest !== '0' ? `-${shortest}` : shortest;
  },
  lower: (value) => (typeof value === 'string' ? value.toLowerCase() : value),
  trim: (value) => (typeof value === 'string' ? value.trim() : value),
};

/** Brings a value to one written form; `undefined` when the value has none. */
export type KeyFilter = (value: unknown) => unknown;
