/**
 * The data that apps write under the locks: per key a number, and the largest token that was seen.
 *
 * A smaller token is refused, at reading and at writing. Readers under a shared lock do not write, so among themselves
 * they may come in any order; holders of permits are not ordered at all.
 */
export class Register {
  #cells = new Map();

  /** @param {{ key: string, token: number, mode?: string }} request @returns {{ accepted: boolean, value: number }} */
  read({ key, token, mode }) {
    const cell = this.#cell(key);
    if (mode === 'permits') return { accepted: true, value: cell.value };
    const accepted = token >= (mode === 'shared' ? cell.written : cell.seen);
    if (accepted) this.#see(cell, token, mode);
    return { accepted, value: cell.value };
  }

  /** @param {{ key: string, token: number, value: number }} request */
  write({ key, token, value }) {
    const cell = this.#cell(key);
    const accepted = token >= cell.seen;
    if (accepted) {
      this.#see(cell, token);
      cell.value = value;
    }
    return { accepted, value: cell.value };
  }

  #see(cell, token, mode) {
    cell.seen = Math.max(cell.seen, token);
    if (mode !== 'shared') cell.written = Math.max(cell.written, token);
  }

  #cell(key) {
    let cell = this.#cells.get(key);
    if (!cell) this.#cells.set(key, (cell = { value: 0, seen: 0, written: 0 }));
    return cell;
  }
}
