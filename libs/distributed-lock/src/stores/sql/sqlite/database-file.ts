import { statfsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { describeGiven } from '../../../checks/describe-given.js';
import { LockConfigurationError } from '../../../port/lock.errors.js';

/** Numbers by which Linux knows file systems of other machines. */
const NETWORK: Readonly<Record<number, string>> = {
  0x6969: 'NFS',
  0x517b: 'SMB',
  0xff534d42: 'CIFS',
  0xfe534d42: 'SMB',
  0x5346414f: 'AFS',
  0x00c36400: 'Ceph',
};

/** @throws LockConfigurationError for what is no path of a file */
export function checkFile(file: unknown): asserts file is string {
  if (typeof file !== 'string' || file === '' || file.includes('\0')) {
    throw new LockConfigurationError(
      `sqliteStore takes the path of a file; it was given ${describeGiven(file)}.`,
    );
  }
  const isMemory = file === ':memory:' || /^file:.*[?&]mode=memory/.test(file);
  if (!isMemory && !/^[a-z][\w+.-]*:\/\//i.test(file)) return;
  throw new LockConfigurationError(
    isMemory
      ? 'sqliteStore needs a file that several processes open. For locks in the memory of one process write memoryStore().'
      : 'sqliteStore takes the path of a file; it was given a URL.',
  );
}

/**
 * On a network file system the locks of files do not hold, and the shared memory of SQLite's log is not shared. Known on
 * Linux only.
 *
 * @throws LockConfigurationError
 */
export function checkFileSystem(file: string): void {
  const name = process.platform === 'linux' ? NETWORK[typeOf(dirname(resolve(file)))] : undefined;
  if (name === undefined) return;
  throw new LockConfigurationError(
    `sqliteStore cannot use ${file}: it is on a network file system (${name}), where several machines would break SQLite's own locks. Take a local path, or a store with a server.`,
  );
}

function typeOf(folder: string): number {
  try {
    return statfsSync(folder).type;
  } catch {
    // SQLite itself says why it cannot open the file.
    return 0;
  }
}
