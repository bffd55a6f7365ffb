import { startRedisServer } from '#redis-server';
import { TcpProxy } from '#tcp-proxy';
import { adminOf, remainsOf } from './admin.mjs';

const COMMANDS = ['--enable-debug-command', 'yes', '--enable-protected-configs', 'yes'];
/** A user of its own, so that it can be refused something. */
const USER = ['--user', 'service', 'on', '>secret', '~*', '&*', '+@all'];

/** One Redis, and a network of its own before each process. @param {import('../index.d.mts').Kind} kind */
export async function openSingle({ serverArgs = [], shift: makeShift }) {
  const shift = makeShift?.();
  const server = await startRedisServer({ args: [...COMMANDS, ...USER, ...serverArgs], env: shift?.env });
  const admin = adminOf(server.url);
  const proxies = new Map();
  return {
    server,
    admin,
    shift,
    /** The network between this process and the server, as a list of one. @param {string} app */
    networksOf: (app) => [proxies.get(app)],
    async targetFor(app) {
      const proxy = await TcpProxy.before(server.port, { keepsCommands: false });
      proxies.set(app, proxy);
      return proxy.url.replace('//', '//service:secret@');
    },
    remains: () => remainsOf([admin]),
    /** Scripts so far; what they do inside is not counted. */
    sample: async () => ({
      redisKeys: (await remainsOf([admin])).length,
      redisScripts: Number(/cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1] ?? 0),
    }),
    async stop() {
      admin.disconnect();
      await Promise.all([...proxies.values()].map((proxy) => proxy.close()));
      await server.stop();
      shift?.remove();
    },
  };
}
