import { readFileSync, statSync, type Stats } from 'node:fs';
import { realPath } from './database-file.js';

/** Other processes find another database at the path than the one that this connection has open. */
export class ReplacedError extends Error {
  /** @param wasExecuted the statement may have been committed to a log that others read no more */
  constructor(
    message: string,
    readonly wasExecuted: boolean,
  ) {
    super(message);
  }
}

/**
 * The file of a database, its log and the memory that its processes share, as a connection has opened them.
 *
 * SQLite's locks on the file keep other processes from deleting the log. POSIX drops them when any descriptor of the process
 * for that file is closed, by a second SQLite library or by a copy of the file. The next process that closes the database
 * then deletes the log, and this connection would go on writing to it.
 */
export class DatabaseFiles {
  private readonly paths: readonly string[];
  private readonly opened: readonly (Stats | undefined)[];
  private readonly memory: string;

  constructor(file: string) {
    const path = realPath(file);
    this.memory = `${path}-shm`;
    // The first is the path that was given, because a link may lead elsewhere later.
    this.paths = [file, `${path}-wal`, this.memory];
    this.opened = this.paths.map(statOf);
  }

  get areReplaced(): boolean {
    return this.paths.some((path, i) => !isSame(statOf(path), this.opened[i]));
  }

  /** @throws ReplacedError */
  check(wasExecuted: boolean): void {
    const replaced = this.paths.find((path, i) => !isSame(statOf(path), this.opened[i]));
    if (replaced === undefined) return;
    throw new ReplacedError(
      `${replaced} was replaced or deleted while it was open. Give the locks a file of their own, and let nothing in their processes open and close it but node:sqlite: no other SQLite library, and no copy`,
      wasExecuted,
    );
  }

  /**
   * SQLite shares the memory of a deleted log with every new connection of the process, as long as an earlier one has it
   * open. Known on Linux only.
   *
   * @throws ReplacedError
   */
  checkMemory(): void {
    if (process.platform !== 'linux' || !mapsDeleted(this.memory)) return;
    throw new ReplacedError(
      `another connection of this process still uses a ${this.memory} that was deleted. It must close first`,
      false,
    );
  }
}

function isSame(now: Stats | undefined, before: Stats | undefined): boolean {
  return now?.ino === before?.ino && now?.dev === before?.dev;
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

function mapsDeleted(path: string): boolean {
  try {
    return readFileSync('/proc/self/maps', 'utf8').includes(`${path} (deleted)`);
  } catch {
    return false;
  }
}
