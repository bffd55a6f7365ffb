import { TcpProxy } from '#tcp-proxy';
import { heldOn, patientService } from './held-on.mjs';

/**
 * A world on three members that elect a leader, and between each process and each member a network of its own.
 *
 * @param {{ cluster: import('../../../tools/own-cluster/index.mjs').OwnCluster, targetOn: (ports: readonly number[]) => any,
 *   sample: () => Promise<object>,
 *   more?: object }} about
 */
export function sessionWorld({ cluster, targetOn, sample, more = {} }) {
  const { members } = cluster;
  const direct = targetOn(members.map(({ port }) => port));
  const networks = new Map();
  const all = (act) => async () => void (await Promise.all(members.map(act)));
  let service;
  return {
    ...more,
    cluster,
    /** All members, as if they were one server. */
    server: {
      kill: all((member) => member.kill()),
      pause: all((member) => member.pause()),
      resume: all((member) => member.resume()),
      /** Resolves when clients are served. */
      async restart() {
        await all((member) => member.kill())();
        await all((member) => member.restart())();
        await cluster.untilHealthy();
      },
    },
    /** The networks between this process and each member. @param {string} app */
    networksOf: (app) => networks.get(app),
    /** The networks between each process and this member. */
    networksTo: ({ id }) => [...networks.values()].map((each) => each[id - 1]),
    async targetFor(app) {
      const proxies = await Promise.all(
        members.map(({ port }) => TcpProxy.before(port, { keepsCommands: false, protocol: 'any' })),
      );
      networks.set(app, proxies);
      return targetOn(proxies.map(({ port }) => port));
    },
    /** A service of the administrator, whose session is never hurt. */
    async service() {
      return (service ??= await patientService(direct));
    },
    remains: (keys) => heldOn(direct, keys),
    sample,
    async stop() {
      await service?.close();
      await Promise.all([...networks.values()].flat().map((proxy) => proxy.close()));
      await cluster.stop();
    },
  };
}
