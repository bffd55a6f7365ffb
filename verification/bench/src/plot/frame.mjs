/** As wide as a page of a phone bears: a text of 13 is still one of 9 there. */
export const WIDTH = 460;
export const MARGIN = 20;

/** On a desktop a picture is as large as the prose beside it. */
const ZOOM = 1.2;
const HEAD = { title: 16, subtitle: 13, line: 20 };

/** Own colours on an own background, so that a picture is readable on a light page and on a dark one. */
const STYLE = `
  .ground { fill: #ffffff; stroke: #d0d7de }
  text { font: 14px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 16px }
  .quiet { fill: #59636e; font-size: 13px }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .own { fill: #0969da } .other { fill: #afb8c1 } .floor { fill: #6e7781 }
  .line { fill: none; stroke-width: 2.5 }
  .s0 { stroke: #0969da } .s1 { stroke: #bc4c00 } .s2 { stroke: #1a7f37 } .s3 { stroke: #8250df }
  .d0 { fill: #0969da } .d1 { fill: #bc4c00 } .d2 { fill: #1a7f37 } .d3 { fill: #8250df }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #3d444d }
    text { fill: #e6edf3 } .quiet { fill: #9198a1 } .grid { stroke: #30363d }
    .own { fill: #4493f8 } .other { fill: #59636e } .floor { fill: #9198a1 }
    .s0 { stroke: #4493f8 } .s1 { stroke: #db6d28 } .s2 { stroke: #3fb950 } .s3 { stroke: #ab7df8 }
    .d0 { fill: #4493f8 } .d1 { fill: #db6d28 } .d2 { fill: #3fb950 } .d3 { fill: #ab7df8 }
  }`;

/**
 * A card with a title. The body begins at y = 0, below the title.
 *
 * @param {{ title: string, subtitle: string, says: string, height: number, style?: string }} what `says`: the picture in
 *   words, for those who cannot see it; `height` is the body's
 * @param {string[]} body SVG elements
 */
export function frame({ title, subtitle, says, height, style = '' }, body) {
  const heads = [
    ...wrap(title, HEAD.title).map((line) => [line, 'title']),
    ...wrap(subtitle, HEAD.subtitle).map((line) => [line, 'quiet']),
  ];
  const top = 24 + heads.length * HEAD.line;
  const total = Math.ceil(top + height);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${total}" width="${WIDTH * ZOOM}" height="${round(total * ZOOM)}" role="img">`,
    `<title>${escape(title)}: ${escape(subtitle)}</title>`,
    `<desc>${escape(says)}</desc>`,
    `<style>${STYLE}${style}\n</style>`,
    `<rect class="ground" x="0.5" y="0.5" width="${WIDTH - 1}" height="${total - 1}" rx="8"/>`,
    ...heads.map(([line, className], i) => text(MARGIN, 29 + i * HEAD.line, line, className)),
    `<g transform="translate(0 ${top})">`,
    ...body,
    '</g>',
    '</svg>\n',
  ].join('\n');
}

/** Lines of at most the width of a card, by the width that a letter has in a wide font. @param {string} content @param {number} size */
export function wrap(content, size) {
  const most = Math.floor((WIDTH - 2 * MARGIN) / (size * 0.6));
  const lines = [''];
  for (const word of content.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (longer.length <= most) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** @param {number} x @param {number} y @param {string} content @param {string} [className] @param {'start' | 'middle' | 'end'} [anchor] */
export function text(x, y, content, className = '', anchor = 'start') {
  const classed = className && ` class="${className}"`;
  const anchored = anchor === 'start' ? '' : ` text-anchor="${anchor}"`;
  return `<text x="${round(x)}" y="${round(y)}"${classed}${anchored}>${escape(content)}</text>`;
}

/** @param {number} value */
export const round = (value) => Number(value.toFixed(1));

/** @param {string} content */
const escape = (content) => content.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
