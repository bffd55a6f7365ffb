import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { SQLITE } from '../../contestants/index.mjs';
import { howSql } from '../report/how-sql.mjs';
import { engineScenarios, TURNS } from '../scenarios/engines.mjs';

/** There is no server whose statistics could be read. @type {import('./store.d.mts').Reading} */
const UNKNOWN = { cpuUs: NaN, calls: new Map([['all', NaN]]) };

/** Without limits: it has no peer, and its calls are as fast as the disk. @type {import('./store.d.mts').BenchedStore} */
export const sqlite = {
  id: 'sqlite',
  name: 'SQLite',
  how: howSql('sqlite'),
  brief: TURNS,
  scenarios: engineScenarios({ server: 'SQLite', contestants: SQLITE, limits: {} }),
  async open() {
    const { node, sqlite: version } = process.versions;
    if (!version) throw new Error(`node:sqlite needs Node 22.13 or later, and this is Node ${node}.`);
    const folder = await mkdtemp(join(tmpdir(), 'bench-sqlite-'));
    return {
      url: pathToFileURL(join(folder, 'locks.db')).href,
      observer: {
        async clear() {
          for (const file of await readdir(folder)) await rm(join(folder, file));
        },
        read: async () => UNKNOWN,
        readWhenQuiet: async () => UNKNOWN,
        version: async () => version,
      },
      sharesOf: async () => new Map(),
      close: () => rm(folder, { recursive: true, force: true }),
    };
  },
};
