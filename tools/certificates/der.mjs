/** What X.509 is written in: each value as a tag, its length, and its bytes. @param {number} tag @param {Buffer[]} parts */
export function tagged(tag, ...parts) {
  const bytes = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag]), lengthOf(bytes.length), bytes]);
}

/** @param {number} length */
function lengthOf(length) {
  if (length < 0x80) return Buffer.from([length]);
  const digits = length.toString(16);
  const bytes = Buffer.from(digits.padStart(digits.length + (digits.length % 2), '0'), 'hex');
  return Buffer.concat([Buffer.from([0x80 | bytes.length]), bytes]);
}

/** @param {Buffer[]} parts */
export const sequence = (...parts) => tagged(0x30, ...parts);
/** @param {Buffer[]} parts */
export const set = (...parts) => tagged(0x31, ...parts);
/** @param {string} text */
export const utf8 = (text) => tagged(0x0c, Buffer.from(text));
/** @param {Date} date */
export const utcTime = (date) =>
  tagged(0x17, Buffer.from(`${date.toISOString().slice(2).replace(/\D/g, '').slice(0, 12)}Z`));
/** @param {Buffer} bytes */
export const bitString = (bytes) => tagged(0x03, Buffer.from([0]), bytes);
/** @param {Buffer} bytes */
export const octetString = (bytes) => tagged(0x04, bytes);
export const TRUE = tagged(0x01, Buffer.from([0xff]));

/** An object identifier whose arcs after the second are below 16384. @param {string} dotted */
export function oid(dotted) {
  const [first, second, ...rest] = dotted.split('.').map(Number);
  const bytes = rest.flatMap((arc) => (arc < 0x80 ? [arc] : [0x80 | (arc >> 7), arc & 0x7f]));
  return tagged(0x06, Buffer.from([40 * first + second, ...bytes]));
}
