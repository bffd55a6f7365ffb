import { maxOf } from '../../collections/extremes.js';

const GAP = '  ';
/** A column is not made narrower than this. */
const MIN_WIDTH = 6;

/** Rows as lines with columns one below the other. The widest columns are cut until a line fits. */
export function tableOf(rows: readonly (readonly string[])[], width: number): string[] {
  const widths = (rows[0] ?? []).map((_, column) => maxOf(rows.map((row) => row[column]?.length ?? 0)));
  let over = widths.reduce((sum, it) => sum + it + GAP.length, -GAP.length) - width;
  while (over > 0 && maxOf(widths) > MIN_WIDTH) {
    const widest = widths.indexOf(maxOf(widths));
    widths[widest] = (widths[widest] ?? 0) - 1;
    over -= 1;
  }
  return rows.map((row) =>
    row
      .map((cell, column) => fit(cell, widths[column] ?? 0))
      .join(GAP)
      .trimEnd(),
  );
}

function fit(text: string, width: number): string {
  return text.length <= width ? text.padEnd(width) : `${text.slice(0, width - 1)}…`;
}
