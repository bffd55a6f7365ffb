import { readFileSync, realpathSync, statfsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { describeServer } from '../../../options/describe-given.js';
import { LockConfigurationError } from '../../../port/lock.errors.js';

/** The numbers of network file systems on Linux. */
const NETWORK: Readonly<Record<number, string>> = {
  0x6969: 'NFS',
  0x517b: 'SMB',
  0xff534d42: 'CIFS',
  0xfe534d42: 'SMB',
  0x5346414f: 'AFS',
  0x00c36400: 'Ceph',
  0x01021997: '9P',
  0x0bd00bd0: 'Lustre',
  0x47504653: 'GPFS',
  0x01161970: 'GFS2',
  0x7461636f: 'OCFS2',
  0x19830326: 'BeeGFS',
};

/** @throws LockConfigurationError for what is no path of a file */
export function checkFile(file: unknown): asserts file is string {
  if (typeof file !== 'string' || file === '' || file.includes('\0')) {
    throw new LockConfigurationError(
      `sqliteStore takes the path of a file; it was given ${describeServer(file)}`,
    );
  }
  const [, parameter] = /\?([\w-]+)=/.exec(file) ?? [];
  if (parameter !== undefined && !/^file:/i.test(file)) {
    throw new LockConfigurationError(
      `sqliteStore cannot follow the parameter "${parameter}": it takes the path of a file and no URL, and a ? would be a part of the name. Give options as the second argument.`,
    );
  }
  const isMemory = file === ':memory:' || /^file:.*[?&]mode=memory/.test(file);
  // SQLite takes file:locks for a URL, too, and an option in it may switch its locks off.
  if (!isMemory && !/^([a-z][\w+.-]*:\/\/|file:)/i.test(file)) return;
  throw new LockConfigurationError(
    isMemory
      ? 'sqliteStore needs a file that several processes open. For locks in the memory of one process write memoryStore().'
      : 'sqliteStore takes the path of a file; it was given a URL.',
  );
}

/** The path without symbolic links, as SQLite opens it. The path of a file that does not exist stays as it is. */
export function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return resolve(file);
  }
}

/**
 * SQLite's log lies beside the file, under its name. On a network file system the locks of files do not hold, and the shared
 * memory of the log is not shared. A second name, and a file that is mounted without its folder, have another log. Mounts
 * and file systems are known on Linux only.
 *
 * @throws LockConfigurationError where processes would not exclude each other
 */
export function checkPlace(file: string): void {
  const isLinux = process.platform === 'linux';
  const path = realPath(file);
  const network = isLinux ? NETWORK[typeOf(dirname(path))] : undefined;
  if (network !== undefined) {
    throw new LockConfigurationError(
      `sqliteStore cannot use ${file}: it is on a network file system (${network}), where several machines would break SQLite's own locks. Take a local path, or a store with a server.`,
    );
  }
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isDirectory()) {
    throw new LockConfigurationError(
      `sqliteStore cannot use ${file}: it is a folder. Give the path of a file in it, such as ${join(file, 'locks.sqlite')}.`,
    );
  }
  const names = stats?.nlink ?? 1;
  if (names > 1) {
    throw new LockConfigurationError(
      `sqliteStore cannot use ${file}: the file has ${names} names (hard links), and processes that open it by different names do not see each other's locks. Delete the other names, or take another file.`,
    );
  }
  if (isLinux && isMountPoint(path)) {
    throw new LockConfigurationError(
      `sqliteStore cannot use ${file}: the file is mounted without its folder, so each container has a log of its own beside it. Mount the folder.`,
    );
  }
}

function isMountPoint(path: string): boolean {
  try {
    const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
    return mounts.some((line) => line.split(' ', 5)[4] === path.replaceAll(' ', '\\040'));
  } catch {
    return false;
  }
}

function typeOf(folder: string): number {
  try {
    return statfsSync(folder).type;
  } catch {
    // SQLite itself says why it cannot open the file.
    return 0;
  }
}
