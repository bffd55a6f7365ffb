import { spawn } from 'node:child_process';

/**
 * Ends the child and removes the folder, unless it is told before the pipe closes that the child has ended. TERM comes
 * first, as Docker's client passes it on to the container. KILL also goes to what the child has started, which may be
 * stopped and would then never notice that it is alone.
 */
const GUARD = `
  read -r ended; [ "$ended" ] && exit
  kill "$0"; sleep 1
  kill -9 "$0" $(cat "/proc/$0/task/$0/children")
  [ -z "$1" ] || rm -rf "$1"`;

/**
 * Starts a child that never outlives this process, even if this process is killed with SIGKILL.
 *
 * A guard waits on a pipe that closes however this process dies. Both run in sessions of their own: Ctrl-C reaches
 * only the parent, which then decides in which order its children end.
 *
 * @type {import('./index.d.mts').spawnGuarded}
 */
export function spawnGuarded(command, args, { folder, stdio = 'ignore', ...options } = {}) {
  const child = spawn(command, args, { ...options, stdio: ['ignore', stdio, stdio], detached: true });
  const exited = new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }));
    child.once('error', (error) => resolve({ code: null, signal: null, error }));
  });
  if (child.pid !== undefined) guard(child.pid, folder, exited);
  return { child, exited };
}

/** @param {number} pid @param {string | undefined} folder @param {Promise<unknown>} exited */
function guard(pid, folder, exited) {
  const sh = spawn('sh', ['-c', GUARD, String(pid), folder ?? ''], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  sh.on('error', () => {});
  sh.stdin.on('error', () => {});
  sh.unref();
  sh.stdin.unref?.();
  void exited.then(() => sh.stdin.end('ended\n'));
}
