import { startRedisServer } from '#redis-server';
import { TcpProxy } from '#tcp-proxy';
import { adminOf, remainsOf } from './admin.mjs';

const COMMANDS = ['--enable-debug-command', 'yes', '--enable-protected-configs', 'yes'];
/** A user of its own, so that it can be refused something. */
const USER = ['--user', 'service', 'on', '>secret', '~*', '&*', '+@all'];

/** One Redis, and a network of its own before each process. @param {import('../index.d.mts').Kind} kind */
export async function openSingle({ serverArgs = [], shift: makeShift, shifts }) {
  const shift = makeShift?.();
  const env = shifts === 'server' ? shift.env : undefined;
  const server = await startRedisServer({ args: [...COMMANDS, ...USER, ...serverArgs], env });
  const admin = adminOf(server.url);
  const proxies = new Map();
  return {
    server,
    admin,
    shift,
    appEnv: shifts === 'apps' ? shift.env : undefined,
    /** The network between this process and the server. @param {string} app */
    networkOf: (app) => proxies.get(app),
    async targetFor(app) {
      const proxy = await TcpProxy.before(server.port, { keepsCommands: false });
      proxies.set(app, proxy);
      return proxy.url.replace('//', '//service:secret@');
    },
    remains: () => remainsOf([admin]),
    async stop() {
      admin.disconnect();
      await Promise.all([...proxies.values()].map((proxy) => proxy.close()));
      await server.stop();
      shift?.remove();
    },
  };
}
