import { readFileSync } from 'node:fs';

/**
 * The records of one or several files in the order in which things happened. The last line of a killed process may be
 * cut short; it is left out.
 *
 * @param {readonly string[]} files @returns {import('../index.d.mts').HistoryRecord[]}
 */
export function readHistory(files) {
  return files
    .flatMap((file) => readFileSync(file, 'utf8').split('\n'))
    .flatMap((line) => parse(line))
    .sort((a, b) => a.at - b.at);
}

/** @param {string} line */
function parse(line) {
  try {
    return [JSON.parse(line)];
  } catch {
    return [];
  }
}
