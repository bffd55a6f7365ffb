import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { missingProcess } from './missing-process.mjs';

const SOURCE = fileURLToPath(new URL('../clock-shift.c', import.meta.url));

/** Why the time of day of a process cannot be shifted on this machine; `undefined` if it can. */
export function missingShift() {
  if (process.platform !== 'linux') return 'it needs Linux';
  if (missingProcess()) return missingProcess();
  return spawnSync('cc', ['--version'], { stdio: 'ignore' }).status === 0
    ? undefined
    : 'it needs a C compiler, cc';
}

/** A shift of the time of day for processes that start with `env`; `set(ms)` moves it while they run. */
export class ClockShift {
  #folder = mkdtempSync(join(tmpdir(), 'clock-shift-'));
  #file = join(this.#folder, 'shift');

  constructor() {
    const library = join(this.#folder, 'shift.so');
    // A server may run as another user than this process.
    chmodSync(this.#folder, 0o755);
    writeFileSync(this.#file, Buffer.alloc(8));
    execFileSync('cc', ['-shared', '-fPIC', '-O2', '-o', library, SOURCE, '-ldl']);
    this.env = { LD_PRELOAD: library, CLOCK_SHIFT: this.#file };
  }

  /** @param {number} ms */
  set(ms) {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(Math.round(ms)));
    const descriptor = openSync(this.#file, 'r+');
    writeSync(descriptor, bytes, 0, 8, 0);
    closeSync(descriptor);
  }

  remove() {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
