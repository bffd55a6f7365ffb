import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, it } from '@jest/globals';
import { until } from '#until';

const WORKER = fileURLToPath(new URL('worker.mjs', import.meta.url));
const PROCESSES = 4;
const KILLS = 6;

it('processes that are killed at any moment leave neither a lock nor a broken file behind, and never overlap', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sqlite-storm-'));
  const tokens: number[] = [];
  const violations: string[] = [];
  const start = (): ChildProcess => {
    const child = fork(WORKER, [join(folder, 'locks'), join(folder, 'inside')], {
      execArgv: ['--disable-warning=ExperimentalWarning'],
    });
    child.on('message', ({ token, violation }: { token?: number; violation?: string }) => {
      if (token !== undefined) tokens.push(token);
      if (violation !== undefined) violations.push(violation);
    });
    return child;
  };
  const workers = Array.from({ length: PROCESSES }, start);
  try {
    await until(() => tokens.length > 20);
    for (let kill = 0; kill < KILLS; kill++) {
      await pause(Math.random() * 400);
      const i = kill % PROCESSES;
      const killed = workers[i]!;
      killed.kill('SIGKILL');
      await once(killed, 'exit');
      workers[i] = start();
      const before = tokens.length;
      await until(() => tokens.length > before + 5);
    }
    expect(violations).toEqual([]);
    // Messages of different processes arrive in any order.
    expect(new Set(tokens).size).toBe(tokens.length);
  } finally {
    for (const worker of workers) worker.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}, 120_000);
