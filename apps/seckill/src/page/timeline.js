import { cardOf } from './goods.js';
import { colourOf, nameOf } from './instances.js';

/** How much of the sale is seen. */
const SPAN_MS = 2500;
/** Views come every 200 ms. The picture runs so far behind the clock that the sections are there when it needs them. */
const BEHIND_MS = 500;
const LANE_HEIGHT = 28;
/** Below this width a lane has only the number of its instance. */
const NARROW = 480;
/** Bars that overlap within a lane share its height. */
const MAX_LEVELS = 6;
const SOON = 'Each purchase will be a bar here';

/** Draws the critical sections of each item: a lane for each instance, in it a bar for each purchase. */
export class Timeline {
  #sections;
  #view;
  /** From the clock of this page to the clock of the database, in ms. */
  #clockOffset = 0;
  #drawn = '';

  constructor(sections) {
    this.#sections = sections;
    const tick = () => {
      if (this.#view) this.#draw();
      requestAnimationFrame(tick);
    };
    tick();
  }

  show(view) {
    this.#view = view;
    this.#clockOffset = view.at - performance.now();
  }

  #draw() {
    const now = performance.now() + this.#clockOffset - BEHIND_MS;
    // Stands still between sales.
    const end = Math.min(now, this.#sections.last + SPAN_MS * 0.04);
    const instances = this.#instances();
    const isDark = matchMedia('(prefers-color-scheme: dark)').matches;
    const state = [end, instances, innerWidth, isDark, devicePixelRatio, this.#sections.overlaps].join();
    if (state === this.#drawn) return;
    this.#drawn = state;
    for (const item of this.#view.goods) {
      const list = this.#sections.byGoods.get(item.id) ?? [];
      const shown = list.filter(({ to }) => to > end - SPAN_MS);
      drawItem(cardOf(item).querySelector('canvas'), shown, { name: item.name, instances, end });
    }
  }

  /** The instances that run, and those whose sections are still to be seen, in the order of their numbers. */
  #instances() {
    const ids = new Set(this.#view.instances.map(({ id }) => id));
    for (const list of this.#sections.byGoods.values()) for (const { instance } of list) ids.add(instance);
    return [...ids].sort((a, b) => a - b);
  }
}

function drawItem(canvas, list, { name, instances, end }) {
  const width = canvas.clientWidth;
  const isNarrow = width < NARROW;
  const height = isNarrow ? LANE_HEIGHT * 0.65 : LANE_HEIGHT;
  const { context, colour } = prepare(canvas, width, instances.length * height + 1);
  const labels = instances.map((id) => (isNarrow ? `${id}` : nameOf(id)));
  const left = Math.max(...labels.map((label) => context.measureText(label).width)) + 20;
  const x = (time) => Math.max(left, left + ((time - end + SPAN_MS) / SPAN_MS) * (width - left));
  context.fillStyle = colour('--back');
  context.fillRect(left, 0, width - left, instances.length * height);
  instances.forEach((id, lane) => {
    const top = lane * height;
    context.fillStyle = colour('--line');
    context.fillRect(0, Math.round(top), width, 1);
    context.fillStyle = colour(colourOf(id));
    context.beginPath();
    context.arc(5, top + height / 2, 4, 0, 2 * Math.PI);
    context.fill();
    context.fillStyle = colour('--text');
    context.fillText(labels[lane], 14, top + height / 2 + 1);
    const own = list.filter(({ instance }) => instance === id);
    const levels = levelsOf(own);
    const step = (height - 6) / Math.max(1, ...levels.map((level) => level + 1));
    own.forEach(({ from, to, overlaps }, i) => {
      context.fillStyle = colour(overlaps ? '--bad' : colourOf(id));
      context.fillRect(
        x(from),
        top + 3.5 + levels[i] * step,
        Math.max(2, x(to) - x(from) - 0.5),
        Math.max(1.5, step - 0.5),
      );
    });
  });
  if (list.length === 0) {
    context.fillStyle = colour('--soft');
    context.fillText(isNarrow ? SOON : `${SOON}, in the lane of its instance`, left + 10, height / 2 + 1);
  }
  // For whoever cannot see the picture.
  const overlapping = list.filter(({ overlaps }) => overlaps).length;
  const which = overlapping > 0 ? `${overlapping} of them overlap` : 'none of them overlap';
  canvas.ariaLabel = `Timeline of ${name}: ${list.length} critical sections, ${which}`;
}

/** A blank canvas in the resolution of the screen, and a function that returns a colour of the stylesheet. */
function prepare(canvas, width, height) {
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.scale(devicePixelRatio, devicePixelRatio);
  context.font = '12px system-ui, sans-serif';
  context.textBaseline = 'middle';
  const style = getComputedStyle(canvas);
  const colours = new Map();
  const colour = (name) => {
    if (!colours.has(name)) colours.set(name, resolve(style.getPropertyValue(name), canvas));
    return colours.get(name);
  };
  return { context, colour };
}

/** A canvas does not understand light-dark(). */
function resolve(colour, canvas) {
  canvas.style.color = colour;
  const resolved = getComputedStyle(canvas).color;
  canvas.style.color = '';
  return resolved;
}

/** For each bar the first level on which the one before has ended. */
function levelsOf(list) {
  const ends = [];
  return list.map(({ from, to }) => {
    const free = ends.findIndex((end) => end <= from);
    const level = free >= 0 ? free : ends.length % MAX_LEVELS;
    ends[level] = Math.max(to, ends[level] ?? 0);
    return level;
  });
}
