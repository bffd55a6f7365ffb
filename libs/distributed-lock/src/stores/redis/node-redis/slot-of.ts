import { hashTag } from '../redis.keys.js';

/** How many slots a cluster has. */
export const SLOTS = 16_384;
/** CRC-16/XMODEM, as the specification of Redis Cluster has it. */
const POLYNOMIAL = 0x1021;

/** The slot of a cluster that a key or a sharded channel lies in. */
export function slotOf(name: string): number {
  let crc = 0;
  for (const byte of Buffer.from(hashTag(name) ?? name)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? (crc << 1) ^ POLYNOMIAL : crc << 1) & 0xffff;
  }
  return crc % SLOTS;
}
