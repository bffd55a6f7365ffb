import { colourOf, indexOf, nameOf } from './instances.js';

/** Sections are told every 200 ms; the picture runs so far behind that they are there when it arrives. */
const BEHIND_MS = 500;
const LANE = 20;
const ONLY_LANE = 44;
const HEAD = 22;
const GAP = 10;
/** Bars that overlap within a lane share its height. */
const MOST_LEVELS = 6;

/** Draws the sections: a group of lanes for each item, in it a lane for each instance. Stands still between sales. */
export class Timeline {
  #canvas;
  #tip;
  #span;
  #sections;
  #view;
  /** What turns the clock of this page into that of the database. */
  #offset = 0;
  /** What was drawn where, for the mouse. */
  #bars = [];
  #drawn = '';

  constructor(root, sections) {
    this.#canvas = root.querySelector('canvas');
    this.#tip = root.querySelector('.tip');
    this.#span = root.querySelector('#span');
    this.#sections = sections;
    this.#canvas.addEventListener('pointermove', (event) => this.#point(event));
    this.#canvas.addEventListener('pointerleave', () => (this.#tip.hidden = true));
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
    const lanes = this.#lanes();
    const width = this.#canvas.clientWidth;
    const laneHeight = lanes.length > 1 ? LANE : ONLY_LANE;
    const groupHeight = HEAD + lanes.length * laneHeight + GAP;
    const height = this.#view.goods.length * groupHeight;
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    const state = [end, span, width, height, dark, devicePixelRatio, this.#sections.overlaps].join();
    if (state === this.#drawn) return;
    this.#drawn = state;
    const pen = this.#prepare(width, height);
    this.#bars = [];
    this.#view.goods.forEach((item, index) => {
      const scale = { end, span, width, laneHeight, top: index * groupHeight + HEAD };
      this.#drawGroup(pen, item, lanes, scale);
    });
  }

  /** The instances that run, and those whose sections are still to be seen. */
  #lanes() {
    const ids = new Set(this.#view.instances.map(({ id }) => id));
    for (const list of this.#sections.byGoods.values()) for (const { instance } of list) ids.add(instance);
    return [...ids].sort((a, b) => indexOf(a) - indexOf(b));
  }

  #prepare(width, height) {
    const ratio = devicePixelRatio;
    const canvas = this.#canvas;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext('2d');
    context.scale(ratio, ratio);
    context.font = '12px system-ui, sans-serif';
    const style = getComputedStyle(canvas);
    const colours = new Map();
    const colour = (name) => {
      if (!colours.has(name)) colours.set(name, resolve(style.getPropertyValue(name), canvas));
      return colours.get(name);
    };
    return { context, colour };
  }

  #drawGroup(pen, item, lanes, scale) {
    const { context, colour } = pen;
    const { end, span, width, top, laneHeight } = scale;
    const x = (time) => ((time - end + span) / span) * width;
    const list = (this.#sections.byGoods.get(item.id) ?? []).filter(({ to }) => to > end - span);
    context.fillStyle = colour('--text');
    context.fillText(item.name, 0, top - 7);
    const overlapping = list.filter(({ overlaps }) => overlaps).length;
    context.fillStyle = colour(overlapping > 0 ? '--bad' : '--soft');
    const verdict = overlapping > 0 ? `${overlapping} overlap` : 'none overlap';
    context.fillText(list.length > 0 ? verdict : '', context.measureText(item.name).width + 10, top - 7);
    context.fillStyle = colour('--back');
    context.fillRect(0, top, width, lanes.length * laneHeight);
    context.fillStyle = colour('--line');
    for (let i = 0; i <= lanes.length; i++) context.fillRect(0, top + i * laneHeight, width, 1);
    const yOf = new Map(lanes.map((id, i) => [id, top + i * laneHeight]));
    this.#drawHandOffs(pen, list, { x, yOf, laneHeight });
    for (const [id, y] of yOf) {
      const mine = list.filter(({ instance }) => instance === id);
      this.#drawLane(pen, mine, { x, y, height: laneHeight, name: item.name });
    }
  }

  /** From the end of a section to the start of the next one. */
  #drawHandOffs({ context, colour }, list, { x, yOf, laneHeight }) {
    context.strokeStyle = colour('--soft');
    context.globalAlpha = 0.45;
    context.beginPath();
    list.forEach((section, i) => {
      const next = list[i + 1];
      if (!next || section.overlaps || next.overlaps || next.from - section.to > 100) return;
      context.moveTo(x(section.to), yOf.get(section.instance) + laneHeight / 2);
      context.lineTo(x(next.from), yOf.get(next.instance) + laneHeight / 2);
    });
    context.stroke();
    context.globalAlpha = 1;
  }

  #drawLane({ context, colour }, list, { x, y, height, name }) {
    const levels = levelsOf(list);
    const step = (height - 5) / Math.max(1, ...levels.map((level) => level + 1));
    list.forEach((section, i) => {
      const bar = {
        left: x(section.from),
        width: Math.max(2, x(section.to) - x(section.from) - 0.5),
        top: y + 3 + levels[i] * step,
        height: Math.max(1.5, step - (step > 4 ? 1 : 0.5)),
      };
      context.fillStyle = colour(section.overlaps ? '--bad' : colourOf(section.instance));
      context.beginPath();
      context.roundRect(bar.left, bar.top, bar.width, bar.height, Math.min(3, bar.width / 2, bar.height / 2));
      context.fill();
      this.#bars.push({ ...bar, section, name });
    });
  }

  #point({ offsetX, offsetY }) {
    const bar = this.#bars.findLast(
      ({ left, width, top, height }) =>
        offsetX >= left - 1 && offsetX <= left + width + 1 && offsetY >= top && offsetY <= top + height,
    );
    this.#tip.hidden = !bar;
    if (!bar) return;
    const { instance, fence, from, to } = bar.section;
    this.#tip.textContent = `${bar.name}, ${nameOf(instance)}, token ${fence}, ${to - from} ms`;
    this.#tip.style.top = `${bar.top - 28}px`;
    const room = this.#canvas.clientWidth - this.#tip.offsetWidth;
    this.#tip.style.left = `${Math.min(room, Math.max(0, bar.left - 20))}px`;
  }
}

/** For each bar the first level on which the one before has ended. */
function levelsOf(list) {
  const ends = [];
  return list.map(({ from, to }) => {
    const free = ends.findIndex((end) => end <= from);
    const level = free >= 0 ? free : ends.length % MOST_LEVELS;
    ends[level] = Math.max(to, ends[level] ?? 0);
    return level;
  });
}

/** A canvas knows no light-dark(). */
function resolve(colour, canvas) {
  canvas.style.color = colour;
  const resolved = getComputedStyle(canvas).color;
  canvas.style.color = '';
  return resolved;
}
