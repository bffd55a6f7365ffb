import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { startInstance } from './instance.js';

describe('startInstance', () => {
  let folder: string;
  beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'instance-'))));
  afterEach(() => rmSync(folder, { recursive: true }));

  const programOf = (text: string) => {
    const program = join(folder, 'program.mjs');
    writeFileSync(program, text);
    return program;
  };

  it('finds the address also in a line that comes in one piece with others', async () => {
    const lines = 'first\\nsecond\\nThe app listens on http://127.0.0.1:1\\nlast\\n';
    const program = programOf(`process.stdout.write('${lines}'); setInterval(() => undefined, 1000);`);
    const instance = await startInstance(program, {});
    expect(instance.url).toBe('http://127.0.0.1:1');
    await instance.stop();
  });

  it('rejects with the output of a program that ends before it listens', async () => {
    const program = programOf(`console.error('no port is free');`);
    await expect(startInstance(program, {})).rejects.toThrow('ended before it listened:\nno port is free');
  });
});
