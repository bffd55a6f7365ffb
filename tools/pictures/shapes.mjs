// Boxes, arrows and their colours, for the pictures that explain. verification/bench/src/plot draws figures.
import { round, text } from '../../verification/bench/src/plot/frame.mjs';

/** For `frame`. `on`: a text on a filled box. */
export const SHAPES = `
  .strong { font-weight: 600 }
  .on { fill: #ffffff }
  .box { fill: #f6f8fa; stroke: #818b98 }
  .path { fill: none; stroke: #59636e; stroke-width: 1.5 } .head { fill: #59636e }
  .bad { stroke: #bc4c00; stroke-width: 1.5 }
  .dash { stroke-dasharray: 4 3 }
  @media (prefers-color-scheme: dark) {
    .on { fill: #0d1117 } .box { fill: #151b23; stroke: #656c76 }
    .path { stroke: #9198a1 } .head { fill: #9198a1 }
    .bad { stroke: #db6d28 }
  }`;

const LINE = 19;

/**
 * A box with lines of text in its middle, the first one strong.
 *
 * @param {{ x: number, y: number, width: number, height: number, className?: string, on?: string }} place
 * @param {readonly string[]} lines
 */
export function box({ x, y, width, height, className = 'box', on = '' }, lines) {
  const first = y + height / 2 + 5 - ((lines.length - 1) * LINE) / 2;
  return [
    `<rect class="${className}" x="${x}" y="${y}" width="${width}" height="${height}" rx="5"/>`,
    ...lines.map((line, i) =>
      text(x + width / 2, first + i * LINE, line, i === 0 ? `strong ${on}`.trim() : on || 'quiet', 'middle'),
    ),
  ];
}

/**
 * A line through these corners, with a head at the last of them.
 *
 * @param {readonly (readonly [number, number])[]} corners @param {string} [className]
 */
export function arrow(corners, className = 'path') {
  const [[fromX, fromY], [x, y]] = corners.slice(-2);
  const [alongX, alongY] = [Math.sign(x - fromX), Math.sign(y - fromY)];
  const back = ([dx, dy], side) => `${round(x - dx * 8 + dy * side)},${round(y - dy * 8 + dx * side)}`;
  const along = [alongX, alongY];
  const line = [...corners.slice(0, -1), [x - alongX * 6, y - alongY * 6]];
  return [
    `<polyline class="${className}" points="${line.map((corner) => corner.join(',')).join(' ')}"/>`,
    `<polygon class="head" points="${x},${y} ${back(along, 4.5)} ${back(along, -4.5)}"/>`,
  ];
}
