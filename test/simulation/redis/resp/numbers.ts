/** A number as C prints it with `%.<digits>g`. */
export function formatG(value: number, digits: number): string {
  if (Number.isInteger(value) && value > 0 && value < 1e9 && digits > 9) return String(value);
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value < 0 ? '-inf' : 'inf';
  if (Object.is(value, -0)) return '-0';
  if (Number.isSafeInteger(value) && Math.abs(value) < 10 ** Math.min(digits, 15)) return String(value);
  const [mantissa = '', power = ''] = value.toExponential(digits - 1).split('e');
  const exponent = Number(power);
  if (exponent >= -4 && exponent < digits) return withoutZeros(value.toFixed(digits - 1 - exponent));
  const sign = exponent < 0 ? '-' : '+';
  return `${withoutZeros(mantissa)}e${sign}${String(Math.abs(exponent)).padStart(2, '0')}`;
}

function withoutZeros(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** As Redis reads a whole number: digits alone, within 64 bits. `undefined` for any other text. */
export function wholeNumber(text: string): number | undefined {
  if (!/^(0|-?[1-9]\d{0,18})$/.test(text)) return undefined;
  if (text.length < 16) return Number(text);
  const exact = BigInt(text);
  return BigInt.asIntN(64, exact) === exact ? Number(text) : undefined;
}

/** As Redis reads a score. */
export function score(text: string): number | undefined {
  const infinite = /^([+-]?)inf(inity)?$/i.exec(text);
  if (infinite) return infinite[1] === '-' ? -Infinity : Infinity;
  return text.trim() === '' || !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? undefined : Number(text);
}
