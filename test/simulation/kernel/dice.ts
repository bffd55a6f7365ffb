import type { Chance } from '../../../libs/distributed-lock/src/common/clock.js';

/** Random numbers from a seed (the generator sfc32). `fork` gives a stream of its own, so that one part does not move another. */
export class Dice implements Chance {
  private a: number;
  private b: number;
  private c: number;
  private d = 1;

  constructor(private readonly seed: string) {
    const hash = hashOf(seed);
    [this.a, this.b, this.c] = [hash, Math.imul(hash, 0x9e3779b1), Math.imul(hash, 0x85ebca6b)];
    for (let i = 0; i < 12; i++) this.next();
  }

  fork(name: string): Dice {
    return new Dice(`${this.seed}/${name}`);
  }

  random(): number {
    return this.next() / 2 ** 32;
  }

  uuid(): string {
    const digits = this.hex(16);
    const variant = '89ab'[this.next() & 3];
    return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-4${digits.slice(13, 16)}-${variant}${digits.slice(17, 20)}-${digits.slice(20)}`;
  }

  hex(bytes: number): string {
    let digits = '';
    while (digits.length < bytes * 2) digits += this.next().toString(16).padStart(8, '0');
    return digits.slice(0, bytes * 2);
  }

  /** A whole number from `least` to `most`, both included. */
  int(least: number, most: number): number {
    return least + Math.floor(this.random() * (most - least + 1));
  }

  /** As `int`, with small numbers as likely as large ones: of 1 to 1000 half are below 32. */
  scale(least: number, most: number): number {
    return Math.round(least * (most / least) ** this.random());
  }

  happens(probability: number): boolean {
    return this.random() < probability;
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[Math.floor(this.random() * items.length)] as Item;
  }

  private next(): number {
    const sum = (this.a + this.b + this.d) | 0;
    this.d = (this.d + 1) | 0;
    this.a = this.b ^ (this.b >>> 9);
    this.b = (this.c + (this.c << 3)) | 0;
    this.c = ((this.c << 21) | (this.c >>> 11)) + sum;
    return sum >>> 0;
  }
}

/** FNV-1a. */
export function hashOf(text: string, before = 0x811c9dc5): number {
  let hash = before;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

const number = new Float64Array(1);
const halves = new Uint32Array(number.buffer);

/** As `hashOf` a text that has the number, in a tenth of its time. */
export function hashOfNumber(value: number, before: number): number {
  number[0] = value;
  const half = Math.imul(before ^ (halves[0] as number), 0x01000193);
  return Math.imul(half ^ (half >>> 15) ^ (halves[1] as number), 0x01000193) >>> 0;
}
