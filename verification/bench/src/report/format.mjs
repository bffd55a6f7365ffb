/** @param {number} value */
export const whole = (value) =>
  Number.isNaN(value) ? '–' : Math.round(value).toLocaleString('en').replaceAll(',', ' ');

/** Two decimals below a hundred. @param {number} value */
export const count = (value) => (value < 100 ? two(value) : whole(value));

/** @param {number} value */
export const ratio = (value) => (Number.isNaN(value) ? '–' : value.toFixed(3));

/** @param {number} value in ms */
export const ms = (value) => (Number.isNaN(value) ? '–' : `${value < 10 ? two(value) : whole(value)} ms`);

/** @param {number} value */
export const bytes = (value) => (Number.isNaN(value) ? '–' : `${whole(value)} B`);

/** @param {number} value */
const two = (value) => (Number.isNaN(value) ? '–' : value.toFixed(2));
