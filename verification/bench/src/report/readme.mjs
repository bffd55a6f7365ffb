import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatMarkdown } from '#markdown';
import { overview } from './overview.mjs';

/** The rows that a run writes, and how each README begins the first one of the others. */
export const READMES = {
  'README.md': {
    rows: ({ work, serial, hop }) => [
      [
        'Hot key, 100 callers in 4 processes, 1 ms of work: p99 wait',
        `${work.ours.ms} at ${work.ours.perSecond} locks/s`,
        `${work.other.ms} at ${work.other.perSecond} locks/s: ${work.other.name}`,
      ],
      [
        'A lock that nobody else wants',
        `${serial.ours} locks/s`,
        `${serial.least} to ${serial.most} locks/s, median ${serial.median}`,
      ],
      [
        'Hand-off to another process, median',
        `${hop.ours.ms}, ${hop.ours.perSecond} a second`,
        `${hop.other.ms}, ${hop.other.perSecond} a second: ${hop.other.name}`,
      ],
    ],
    first: '| Measured on Redis',
    after: '| Commands to Redis',
  },
  'docs/zh/README.md': {
    rows: ({ work, serial, hop }) => [
      [
        '热点键，4 个进程共 100 个调用，1 毫秒的工作：p99 等待',
        `${inChinese(work.ours.ms)}，${work.ours.perSecond} 锁/秒`,
        `${inChinese(work.other.ms)}，${work.other.perSecond} 锁/秒：${work.other.name}`,
      ],
      [
        '没有竞争的一把锁',
        `${serial.ours} 锁/秒`,
        `${serial.least} 到 ${serial.most} 锁/秒，中位数 ${serial.median}`,
      ],
      [
        '交接给另一个进程，中位数',
        `${inChinese(hop.ours.ms)}，每秒 ${hop.ours.perSecond} 次`,
        `${inChinese(hop.other.ms)}，每秒 ${hop.other.perSecond} 次：${hop.other.name}`,
      ],
    ],
    first: '| 在 Redis 上的测量',
    after: '| 为一把没有竞争的锁',
  },
};

/** @param {string} text such as "143 ms" */
const inChinese = (text) => text.replace('ms', '毫秒');

/**
 * Writes the figures of a run into each README below `root` that has a table for them.
 *
 * @param {string} root @param {any[]} results of runScenario on Redis
 */
export async function fillReadmes(root, results) {
  const { readme } = overview(results);
  if (!readme) return;
  for (const [file, how] of Object.entries(READMES)) {
    const path = join(root, file);
    if (existsSync(path)) writeFileSync(path, await withFigures(readFileSync(path, 'utf8'), how, readme));
  }
}

/** @param {string} text @param {(typeof READMES)[keyof typeof READMES]} how @param {any} figures @returns {Promise<string>} */
export async function withFigures(text, { rows, first, after }, figures) {
  const lines = text.split('\n');
  const head = lines.findIndex((line) => line.startsWith(first));
  const end = lines.findIndex((line, i) => i > head && line.startsWith(after));
  if (head < 0 || end < 0) throw new Error(`The README has no table that begins with "${first}".`);
  const own = rows(figures).map((cells) => `| ${cells.join(' | ')} |`);
  return formatMarkdown([...lines.slice(0, head + 2), ...own, ...lines.slice(end)].join('\n'));
}
