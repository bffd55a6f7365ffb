import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { expect, it } from '@jest/globals';
import { until } from '#until';

/** A program that starts a server, says where, and waits. */
const PROGRAM = `
  import { startRedisServer } from '#redis-server';
  const server = await startRedisServer();
  console.log(server.port);
`;

const listens = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true));
    socket.once('error', () => resolve(false)).once('connect', () => socket.destroy());
  });

it('the test server ends with a program that is killed with SIGKILL', async () => {
  const program = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM]);
  const output: Buffer = await new Promise((resolve) => program.stdout.once('data', resolve));
  const port = Number(output.toString());
  expect(await listens(port)).toBe(true);
  program.kill('SIGKILL');
  await until(async () => !(await listens(port)));
});
