import { cardOf } from './goods.js';
import { Lanes } from './lanes.js';

/** Sections are told every 200 ms; the picture runs so far behind that they are there when it arrives. */
const BEHIND_MS = 500;

/** Draws the sections of all items, on one clock. Stands still between sales. */
export class Timeline {
  #span;
  #sections;
  #view;
  /** The offset from the clock of this page to the clock of the database, in ms. */
  #offset = 0;
  #lanes = new Map();
  #drawn = '';

  constructor(span, sections) {
    this.#span = span;
    this.#sections = sections;
    const tick = () => {
      if (this.#view) this.#draw();
      requestAnimationFrame(tick);
    };
    tick();
  }

  show(view) {
    this.#view = view;
    this.#offset = view.at - performance.now();
  }

  #draw() {
    const span = Number(this.#span.value);
    const running = performance.now() + this.#offset - BEHIND_MS;
    const end = Math.min(running, this.#sections.last + span * 0.04);
    const instances = this.#instances();
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    const widths = this.#view.goods.map((item) => this.#lanesOf(item).width);
    const state = [end, span, widths, instances, dark, devicePixelRatio, this.#sections.overlaps].join();
    if (state === this.#drawn) return;
    this.#drawn = state;
    for (const item of this.#view.goods) {
      const list = (this.#sections.byGoods.get(item.id) ?? []).filter(({ to }) => to > end - span);
      this.#lanesOf(item).draw(list, instances, { end, span });
    }
  }

  #lanesOf(item) {
    let lanes = this.#lanes.get(item.id);
    if (!lanes)
      this.#lanes.set(item.id, (lanes = new Lanes(cardOf(item).querySelector('.lanes'), item.name)));
    return lanes;
  }

  /** The instances that run, and those whose sections are still to be seen, in the order of their numbers. */
  #instances() {
    const ids = new Set(this.#view.instances.map(({ id }) => id));
    for (const list of this.#sections.byGoods.values()) for (const { instance } of list) ids.add(instance);
    return [...ids].sort((a, b) => a - b);
  }
}
