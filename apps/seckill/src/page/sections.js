const KEPT_MS = 60_000;

/** The critical sections that this page has seen, by item, each marked when it overlaps another of its item. */
export class Sections {
  byGoods = new Map();
  /** How many overlap, of all that were seen since the last reset. */
  overlaps = 0;
  /** When the last one ended. */
  last = 0;
  #seen = new Set();
  #orders = 0;

  add({ sections, goods, at }) {
    // Fewer than before: somebody has reset the sale, maybe on the page of another instance.
    const orders = goods.reduce((total, item) => total + item.orders, 0);
    if (orders < this.#orders) this.clear();
    this.#orders = orders;
    for (const { ...section } of sections) {
      if (this.#seen.has(section.id)) continue;
      this.#seen.add(section.id);
      const list = this.byGoods.get(section.goodsId) ?? [];
      this.byGoods.set(section.goodsId, list);
      list.push(section);
      this.last = Math.max(this.last, section.to);
    }
    for (const [id, list] of this.byGoods) {
      list.sort((a, b) => a.from - b.from || a.id - b.id);
      this.#mark(list);
      this.byGoods.set(
        id,
        list.filter(({ to }) => to > at - KEPT_MS),
      );
    }
  }

  /** Forgets what is shown; what was seen is not shown again. */
  clear() {
    this.byGoods.clear();
    this.overlaps = 0;
  }

  /** In order of their starts it is enough to know which of those before ends last. */
  #mark(list) {
    let longest;
    for (const section of list) {
      if (longest && section.from < longest.to) this.#flag(section, longest);
      if (!longest || section.to > longest.to) longest = section;
    }
  }

  #flag(...sections) {
    for (const section of sections) {
      if (!section.overlaps) this.overlaps++;
      section.overlaps = true;
    }
  }
}
