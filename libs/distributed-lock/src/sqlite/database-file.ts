import { readFileSync, realpathSync, statfsSync, type Stats, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { LockConfigurationError } from '../port/lock.errors.js';
import { describeServer } from '../connection/checks.js';

/** The numbers by which Linux identifies network file systems (`statfs`). */
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

/** @throws LockConfigurationError for anything but the path of a file */
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
  if (file === ':memory:' || /^file:.*[?&]mode=memory/.test(file)) {
    throw new LockConfigurationError(
      'sqliteStore needs a file that several processes open. For locks in the memory of one process write memoryStore().',
    );
  }
  // SQLite would treat `file:locks` as a URL, and an option in that URL could switch off its locks.
  if (/^([a-z][\w+.-]*:\/\/|file:)/i.test(file)) {
    throw new LockConfigurationError('sqliteStore takes the path of a file; it was given a URL.');
  }
}

/** @returns `undefined` if `work` throws */
export function attempt<Result>(work: () => Result): Result | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

/** Resolves symbolic links, as SQLite does. Returns the path unchanged if there is no such file. */
function realPath(file: string): string {
  return attempt(() => realpathSync(file)) ?? resolve(file);
}

/**
 * @throws LockConfigurationError where processes would not exclude each other, because they do not share the write-ahead log, which
 * SQLite stores beside the file. Mounts and file systems are checked on Linux only
 */
export function checkPlace(file: string): void {
  const cannot = (why: string) => new LockConfigurationError(`sqliteStore cannot use ${file}: ${why}`);
  const isLinux = process.platform === 'linux';
  const path = realPath(file);
  // Report nothing if this fails: SQLite fails to open the file, too, and says why.
  const system = isLinux ? attempt(() => statfsSync(dirname(path)).type) : undefined;
  const network = NETWORK[system ?? 0];
  if (network !== undefined) {
    throw cannot(
      `it is on a network file system (${network}), where several machines would break SQLite's own locks. Take a local path, or a store with a server.`,
    );
  }
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isDirectory()) {
    throw cannot(`it is a folder. Give the path of a file in it, such as ${join(file, 'locks.sqlite')}.`);
  }
  const names = stats?.nlink ?? 1;
  if (names > 1) {
    throw cannot(
      `the file has ${names} names (hard links), and processes that open it by different names do not see each other's locks. Delete the other names, or take another file.`,
    );
  }
  if (isLinux && isMountPoint(path)) {
    throw cannot(
      `the file is mounted without its folder, so each container has a log of its own beside it. Mount the folder.`,
    );
  }
}

function isMountPoint(path: string): boolean {
  const mounts = attempt(() => readFileSync('/proc/self/mountinfo', 'utf8'))?.split('\n') ?? [];
  return mounts.some((line) => line.split(' ', 5)[4] === path.replaceAll(' ', '\\040'));
}

/** Thrown when other processes find another database at the path than the one that this connection has open. */
export class ReplacedError extends Error {
  /** @param wasExecuted the statement may have been committed, although to a log that other processes no longer read */
  constructor(
    message: string,
    readonly wasExecuted: boolean,
  ) {
    super(message);
  }
}

/**
 * The database file, its write-ahead log, and the log's shared memory, as they were when a connection opened them.
 *
 * Normally SQLite's locks on the file keep others from replacing them. But POSIX drops all locks that a process has on a file as soon
 * as the process closes any descriptor of that file. A second SQLite library in the process does so, and so does copying the file.
 * The next process that closes the database then deletes the log, and this connection would go on writing to the deleted log.
 */
export class DatabaseFiles {
  private readonly paths: readonly string[];
  private readonly opened: readonly (Stats | undefined)[];
  private readonly memory: string;

  constructor(file: string) {
    const path = realPath(file);
    this.memory = `${path}-shm`;
    // Do not resolve the first path: it may be a symbolic link that later leads to another file.
    this.paths = [file, `${path}-wal`, this.memory];
    this.opened = this.paths.map(statOf);
  }

  /** The path of the first file that was replaced since it was opened. */
  get replaced(): string | undefined {
    return this.paths.find((path, i) => {
      const [now, before] = [statOf(path), this.opened[i]];
      return now?.ino !== before?.ino || now?.dev !== before?.dev;
    });
  }

  /** @throws ReplacedError if a file was replaced since it was opened @param wasExecuted as in `ReplacedError` */
  check(wasExecuted: boolean): void {
    const { replaced } = this;
    if (replaced === undefined) return;
    throw new ReplacedError(
      `${replaced} was replaced or deleted while it was open. Give the locks a file of their own, and let nothing in their processes open and close it but node:sqlite: no other SQLite library, and no copy`,
      wasExecuted,
    );
  }

  /**
   * @throws ReplacedError if SQLite would give this connection the shared memory of a deleted log. SQLite does so as long as an earlier
   * connection of this process has that memory open. Can be detected on Linux only
   */
  checkMemory(): void {
    const maps = attempt(() => readFileSync('/proc/self/maps', 'utf8'));
    if (process.platform !== 'linux' || !maps?.includes(`${this.memory} (deleted)`)) return;
    throw new ReplacedError(
      `another connection of this process still uses a ${this.memory} that was deleted. It must close first`,
      false,
    );
  }
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
