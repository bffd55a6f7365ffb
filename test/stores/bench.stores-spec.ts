import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { startZookeeperServer } from '#zookeeper-server';
import { ownServer } from '../support/own-server.js';
import { describeWith } from './support/describe-with.js';

const MAIN = fileURLToPath(new URL('../../verification/bench/src/main.mjs', import.meta.url));

const STORES = [
  {
    store: 'postgres',
    product: 'PostgreSQL',
    sent: 'statements',
    floor: 'floor: two bare statements',
    hop: 'floor: a PL/pgSQL function per call',
  },
  {
    store: 'etcd',
    product: 'etcd',
    sent: 'requests',
    floor: 'floor: two bare requests',
    hop: 'floor: one bare transaction',
  },
] as const;

/** One with requests of its own and one with a session, without the peers, which nothing but `npm run bench` installs. */
for (const { store, product, sent, floor, hop } of STORES) {
  describeWith(store)(`the benchmark on ${product}`, () => {
    const out = mkdtempSync(join(tmpdir(), 'bench-test-'));
    let page = '';

    beforeAll(async () => {
      const what = ['--store', store, '--only', 'serial,hop', '--peers', 'floor'];
      const how = ['--seconds', '0.1', '--rounds', '1', '--busy', '--out', out];
      await promisify(execFile)(process.execPath, [MAIN, ...what, ...how]);
      page = readFileSync(join(out, 'verification/bench/results', `${store}.md`), 'utf8');
    }, 120_000);
    afterAll(() => rmSync(out, { recursive: true, force: true }));

    /** The cells below `title`, by the name of their row. */
    function column(section: string, title: string): Map<string, string> {
      const [, table = ''] = page.slice(page.indexOf(`\nScenario \`${section}\``)).split(/\n\n(?=\|)/);
      const cells = (line: string) => line.split('|').map((cell) => cell.trim());
      const [head = '', , ...rows] = table.split('\n\n')[0]?.split('\n') ?? [];
      const at = cells(head).indexOf(title);
      return new Map(rows.map(cells).map((row) => [row[1] as string, row[at] as string]));
    }

    it(`counts two ${sent} for a lock that nobody else wants, and fewer where a release and the next acquire go together`, () => {
      const counts = column('serial', sent);
      // A keep-alive of a session may fall into the run.
      const most = sent === 'requests' ? 2.2 : 2;
      for (const name of [floor, 'ours, acquire + release']) {
        expect(Number(counts.get(name))).toBeGreaterThanOrEqual(2);
        expect(Number(counts.get(name))).toBeLessThanOrEqual(most);
      }
      expect(Number(counts.get('ours, withLock'))).toBeLessThan(2);
    });

    it('measures hand-offs between two processes beside their floor', () => {
      expect([...column('hop', 'hand-offs/s').keys()]).toEqual([hop, 'ours, withLock']);
      expect(Number(column('hop', 'hand-offs/s').get('ours, withLock'))).toBeGreaterThan(0);
      for (const median of column('hop', 'p50').values()) expect(median).toMatch(/^[\d.]+ ms$/);
      expect([...column('hop', 'failed').values()]).toEqual(['0', '0']);
    });

    it('writes a page of its own, with a picture for each scenario', () => {
      const head = `# Benchmarks on ${product}\n\nMade by \`npm run bench -- --store ${store}\``;
      expect(page.startsWith(head)).toBe(true);
      const images = [...page.matchAll(/\]\((images\/.*?\.svg)\)/g)].map(([, image]) => image as string);
      expect(images).toEqual([`images/bench-${store}-serial.svg`, `images/bench-${store}-hop.svg`]);
      expect(images.filter((image) => !existsSync(join(out, 'verification/bench/results', image)))).toEqual(
        [],
      );
    });
  });
}

describeWith('zookeeper')('the floor of the benchmark on ZooKeeper', () => {
  const server = ownServer(startZookeeperServer);

  it('makes a znode as soon as it is there, sees it and removes it', async () => {
    const { connectZookeeper } = await import(
      new URL('../../verification/bench/contestants/session/zookeeper-api.mjs', import.meta.url).href
    );
    const connection = await connectZookeeper(`zookeeper://${server.url}`);
    try {
      await connection.createEphemeral('/floor', '');
      expect(await connection.childrenOf('/')).toContain('floor');
      await connection.remove('/floor');
      expect(await connection.childrenOf('/')).not.toContain('floor');
    } finally {
      connection.close();
    }
  });
});
