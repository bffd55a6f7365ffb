import { colourOf, nameOf } from './instances.js';

/** Lanes share this height, as long as each is neither too low to be read nor too high to look like one. */
const HEIGHT = 132;
const LOWEST = 18;
const HIGHEST = 44;
/** Below this width a lane has only the number of its instance. */
const NARROW = 480;
/** Bars that overlap within a lane share its height. */
const MOST_LEVELS = 6;
const SOON = 'Each purchase will be a bar here';
/** A lock that is not passed on within this was free in between. */
const HAND_OFF_MS = 100;

/** The timeline of one item: a lane for each instance, in it a bar for each critical section. */
export class Lanes {
  #canvas;
  #tip;
  #name;
  /** Until the first section shows what a bar is. */
  #isUntouched = true;
  /** The shapes that were drawn, with their positions, for the mouse. */
  #bars = [];

  constructor(root, name) {
    this.#canvas = root.querySelector('canvas');
    this.#tip = root.querySelector('.tip');
    this.#name = name;
    this.#canvas.addEventListener('pointermove', (event) => this.#point(event));
    this.#canvas.addEventListener('pointerleave', () => (this.#tip.hidden = true));
  }

  get width() {
    return this.#canvas.clientWidth;
  }

  /** @param list the sections to be seen, in order of their starts */
  draw(list, instances, { end, span }) {
    const { width } = this;
    const isNarrow = width < NARROW;
    const height = Math.min(HIGHEST, Math.max(LOWEST, (isNarrow ? LOWEST * 4 : HEIGHT) / instances.length));
    const pen = this.#prepare(width, instances.length * height + 1);
    const { context, colour } = pen;
    const labels = instances.map((id) => (isNarrow ? `${id}` : nameOf(id)));
    const left = Math.max(...labels.map((label) => context.measureText(label).width)) + 20;
    const x = (time) => left + ((time - end + span) / span) * (width - left);
    const lanes = new Map(instances.map((id, i) => [id, i * height]));
    context.fillStyle = colour('--back');
    context.fillRect(left, 0, width - left, instances.length * height);
    context.fillStyle = colour('--line');
    for (let i = 0; i <= instances.length; i++) context.fillRect(0, Math.round(i * height), width, 1);
    instances.forEach((id, i) => {
      const middle = (i + 0.5) * height;
      context.fillStyle = colour(colourOf(id));
      context.beginPath();
      context.arc(5, middle, 4, 0, 2 * Math.PI);
      context.fill();
      context.fillStyle = colour('--text');
      context.fillText(labels[i], 14, middle + 1);
    });
    context.save();
    context.beginPath();
    context.rect(left, 0, width - left, instances.length * height);
    context.clip();
    this.#bars = [];
    this.#isUntouched &&= list.length === 0;
    if (this.#isUntouched) {
      context.fillStyle = colour('--soft');
      context.fillText(isNarrow ? SOON : `${SOON}, in the lane of its instance`, left + 10, height / 2 + 1);
    }
    this.#drawHandOffs(pen, list, { x, lanes, height });
    for (const [id, y] of lanes) {
      const mine = list.filter(({ instance }) => instance === id);
      this.#drawLane(pen, mine, { x, y, height, left });
    }
    context.restore();
    this.#describe(list);
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
    context.textBaseline = 'middle';
    const style = getComputedStyle(canvas);
    const colours = new Map();
    const colour = (name) => {
      if (!colours.has(name)) colours.set(name, resolve(style.getPropertyValue(name), canvas));
      return colours.get(name);
    };
    return { context, colour };
  }

  /** From the end of a section to the start of the next one. */
  #drawHandOffs({ context, colour }, list, { x, lanes, height }) {
    context.strokeStyle = colour('--soft');
    context.globalAlpha = 0.45;
    context.beginPath();
    list.forEach((section, i) => {
      const next = list[i + 1];
      if (!next || section.overlaps || next.overlaps || next.from - section.to > HAND_OFF_MS) return;
      context.moveTo(x(section.to), lanes.get(section.instance) + height / 2);
      context.lineTo(x(next.from), lanes.get(next.instance) + height / 2);
    });
    context.stroke();
    context.globalAlpha = 1;
  }

  #drawLane({ context, colour }, list, { x, y, height, left }) {
    const levels = levelsOf(list);
    const step = (height - 6) / Math.max(1, ...levels.map((level) => level + 1));
    list.forEach((section, i) => {
      const from = Math.max(left, x(section.from));
      const bar = {
        left: from,
        width: Math.max(2, x(section.to) - from - 0.5),
        top: y + 3.5 + levels[i] * step,
        height: Math.max(1.5, step - (step > 4 ? 1 : 0.5)),
      };
      context.fillStyle = colour(section.overlaps ? '--bad' : colourOf(section.instance));
      context.beginPath();
      context.roundRect(bar.left, bar.top, bar.width, bar.height, Math.min(3, bar.width / 2, bar.height / 2));
      context.fill();
      this.#bars.push({ ...bar, section });
    });
  }

  /** For whoever cannot see it. */
  #describe(list) {
    const overlapping = list.filter(({ overlaps }) => overlaps).length;
    const which = overlapping > 0 ? `${overlapping} of them overlap` : 'none of them overlap';
    const text = `Timeline of ${this.#name}: ${list.length} critical sections, ${which}`;
    if (this.#canvas.ariaLabel !== text) this.#canvas.ariaLabel = text;
  }

  #point({ offsetX, offsetY }) {
    const bar = this.#bars.findLast(
      ({ left, width, top, height }) =>
        offsetX >= left - 1 && offsetX <= left + width + 1 && offsetY >= top && offsetY <= top + height,
    );
    this.#tip.hidden = !bar;
    if (!bar) return;
    const { instance, fence, from, to } = bar.section;
    this.#tip.textContent = `${nameOf(instance)}, token ${fence}, ${to - from} ms`;
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
