import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { cachedFolder } from '../../../../tools/cached-folder/index.mjs';

const VERSION = '22.23.3';

/** This Node if it has SQLite. Otherwise one of npm's packages, installed once below node_modules/.cache. */
export function nodeWithSqlite(): string | undefined {
  if (process.getBuiltinModule?.('node:sqlite') as object | undefined) return process.execPath;
  const folder = cachedFolder(`node-${VERSION}`, (staging) => {
    const npm = ['install', '--no-save', '--no-audit', '--no-fund', '--prefix', staging, `node@${VERSION}`];
    return spawnSync('npm', npm, { stdio: 'ignore' }).status === 0;
  });
  return folder && join(folder, 'node_modules/node/bin/node');
}
