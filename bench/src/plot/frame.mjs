/** Own colours on an own background, so that a plot is readable on a light page and on a dark one. */
const STYLE = `
  .ground { fill: #ffffff; stroke: #d0d7de }
  text { font: 13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 15px }
  .quiet { fill: #59636e; font-size: 12px }
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

/** @param {{ title: string, subtitle: string, width: number, height: number }} what @param {string[]} body SVG elements */
export function frame({ title, subtitle, width, height }, body) {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${escape(title)}: ${escape(subtitle)}</title>`,
    `<style>${STYLE}\n</style>`,
    `<rect class="ground" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>`,
    text(20, 30, title, 'title'),
    text(20, 49, subtitle, 'quiet'),
    ...body,
    '</svg>\n',
  ].join('\n');
}

/** @param {number} x @param {number} y @param {string} content @param {string} [className] @param {'start' | 'middle' | 'end'} [anchor] */
export function text(x, y, content, className = '', anchor = 'start') {
  return `<text x="${round(x)}" y="${round(y)}" class="${className}" text-anchor="${anchor}">${escape(content)}</text>`;
}

/** @param {number} value */
export const round = (value) => Number(value.toFixed(1));

/** @param {string} content */
const escape = (content) => content.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
