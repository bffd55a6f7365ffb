import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import mysql from 'mysql2/promise';
import { spawnGuarded } from '#processes';
import { until } from '#until';

const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/mariadb-server', import.meta.url));

export interface MariadbServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** A private server on 127.0.0.1 without users; `undefined` where none is installed and Debian has none to unpack. */
export async function startMariadbServer(): Promise<MariadbServer | undefined> {
  const server = findServer();
  if (!server) return undefined;
  const folder = mkdtempSync(join(tmpdir(), 'mariadb-test-'));
  const port = await freePort();
  const options = ['--no-defaults', '--skip-grant-tables', '--bind-address=127.0.0.1', `--port=${port}`];
  const where = [`--datadir=${folder}`, `--socket=${join(folder, 's')}`, `--user=${userInfo().username}`];
  const { child, exited } = spawnGuarded(server.command, [...options, ...where, ...server.args], {
    env: { ...process.env, LD_LIBRARY_PATH: server.libraries },
    folder,
  });
  const url = `mysql://root@127.0.0.1:${port}`;
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL');
    await exited;
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await until(async () => {
      const connection = await mysql.createConnection(url);
      await connection.query('CREATE DATABASE IF NOT EXISTS shop');
      await connection.end();
      return true;
    });
    return { url: `${url}/shop`, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function findServer(): { command: string; args: string[]; libraries: string } | undefined {
  for (const command of ['mariadbd', '/usr/sbin/mariadbd']) {
    if (runs(command, ['--version'])) return { command, args: [], libraries: '' };
  }
  if (!existsSync(CACHE)) unpackDebianPackages();
  const command = join(CACHE, 'usr/sbin/mariadbd');
  if (!existsSync(command)) return undefined;
  const libraries = readdirSync(join(CACHE, 'usr/lib'))
    .filter((name) => name.includes('-linux-'))
    .map((name) => join(CACHE, 'usr/lib', name))
    .join(':');
  return { command, args: [`--lc-messages-dir=${join(CACHE, 'usr/share/mysql')}`], libraries };
}

/** As the Redis server's are: installs nothing and needs no root. */
function unpackDebianPackages(): void {
  const staging = `${CACHE}.${process.pid}`;
  const archives = join(staging, 'archives');
  mkdirSync(join(archives, 'partial'), { recursive: true });
  const how = ['--download-only', '--reinstall', '-qq', '-y', '--no-install-recommends'];
  const where = ['-o', 'Debug::NoLocking=true', '-o', `Dir::Cache::archives=${archives}`];
  if (runs('apt-get', ['install', ...how, ...where, 'mariadb-server-core'])) {
    const packages = readdirSync(archives).filter((file) => file.endsWith('.deb'));
    const isWhole = packages.every((file) => runs('dpkg', ['-x', join(archives, file), staging]));
    rmSync(archives, { recursive: true });
    if (isWhole && !existsSync(CACHE)) renameSync(staging, CACHE);
  }
  rmSync(staging, { recursive: true, force: true });
}

function runs(command: string, args: string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo;
      probe.close(() => resolve(port));
    });
  });
}
