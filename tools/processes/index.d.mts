import type { ChildProcess } from 'node:child_process';

export interface GuardedChild {
  readonly child: ChildProcess;
  /** Resolves when it has ended, or could not be started; never rejects. */
  readonly exited: Promise<{ code: number | null; signal: string | null; error?: Error }>;
}

export interface GuardedOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Whom it runs as, where this process may choose. */
  readonly uid?: number;
  readonly gid?: number;
  /** Removed by the guard if this process dies before the child. */
  readonly folder?: string;
  /** Where its output goes: nowhere by default, a file descriptor, or a pipe. */
  readonly stdio?: 'ignore' | 'pipe' | number;
}

export function spawnGuarded(
  command: string,
  args: readonly string[],
  options?: GuardedOptions,
): GuardedChild;
