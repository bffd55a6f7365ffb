export class Flow {
  heldBytes = 0;
  droppedBytes = 0;
  loses = () => false;
  edit = (chunk) => chunk;
  #mode = 'pass';
  #delayMs = () => 0;
  #held = [];
  /** Under way, each with the moment of its arrival; never out of order. */
  #delayed = [];

  /** @param {import('node:net').Socket} to */
  constructor(to) {
    this.to = to;
  }

  pass(delayMs = 0) {
    this.#mode = 'pass';
    this.#delayMs = typeof delayMs === 'function' ? delayMs : () => delayMs;
    const held = this.#held.splice(0);
    this.heldBytes = 0;
    for (const chunk of held) this.carry(chunk);
  }

  hold() {
    this.#mode = 'hold';
  }

  drop() {
    this.#mode = 'drop';
  }

  carry(original) {
    const chunk = this.edit(original);
    if (this.#mode === 'drop' || this.loses(chunk)) this.droppedBytes += chunk.length;
    else if (this.#mode === 'hold') {
      this.heldBytes += chunk.length;
      this.#held.push(chunk);
    } else this.#send(chunk, this.#delayMs());
  }

  #send(chunk, delayMs) {
    const last = this.#delayed.at(-1);
    if (!last && delayMs <= 0) return this.#write(chunk);
    const dueAt = Math.max(performance.now() + delayMs, last?.dueAt ?? 0);
    this.#delayed.push({ chunk, dueAt });
    if (!last) this.#deliverNext();
  }

  #deliverNext() {
    const [next] = this.#delayed;
    if (!next) return;
    setTimeout(() => {
      this.#delayed.shift();
      this.#write(next.chunk);
      this.#deliverNext();
    }, next.dueAt - performance.now());
  }

  #write(chunk) {
    if (this.to.writable) this.to.write(chunk);
  }
}
