import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

/** The commands that clients send meanwhile, without those of scripts and of the one who counts. */
export async function commandsWhile(redis, work) {
  const monitor = await redis.monitor();
  let count = 0;
  monitor.on('monitor', (_time, _args, source) => (count += source === 'lua' ? 0 : 1));
  await work();
  monitor.disconnect();
  return count;
}

/** Refuses scripts from now on until one was refused. @returns whether that happened within a lease */
export async function refuseOneRenewal(redis, leaseMs) {
  await redis.call('ACL', 'LOG', 'RESET');
  await redis.call('ACL', 'SETUSER', 'default', '-@scripting');
  let refused = 0;
  for (const end = Date.now() + leaseMs; !refused && Date.now() < end; await sleep(10)) {
    refused = (await redis.call('ACL', 'LOG')).length;
  }
  await redis.call('ACL', 'SETUSER', 'default', '+@all');
  return refused > 0;
}

/** Someone with all rights, also while the libraries have fewer. */
export async function administrator(url) {
  const redis = new Redis(url);
  await redis.call('ACL', 'SETUSER', 'admin', 'on', '>admin', '~*', '&*', '+@all');
  redis.disconnect();
  return new Redis(url, { username: 'admin', password: 'admin' });
}
