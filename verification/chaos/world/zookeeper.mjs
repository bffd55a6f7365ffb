import { until } from '#until';
import { startZookeeperCluster } from '#zookeeper-server';
import { sessionWorld } from './sessions.mjs';
import { ZookeeperSession } from './zookeeper-session.mjs';

const ROOT = '/nest-lock';

/** Three members of ZooKeeper. @param {import('../index.d.mts').Kind} kind */
export async function openZookeeper(kind) {
  const cluster = await startZookeeperCluster(3, { settings: kind.settings });

  /** Asks the members in turn, as one of them may be the victim of a fault. */
  const inSession = async (act) => {
    let answer;
    await until(async () => {
      for (const { port } of cluster.members) {
        const session = await ZookeeperSession.open(port).catch(() => undefined);
        if (!session) continue;
        answer = await act(session);
        await session.close();
        return true;
      }
      return false;
    });
    return answer;
  };
  const deleteAll = (folder, isMeant = () => true) =>
    inSession(async (session) => {
      const names = (await session.childrenOf(`${ROOT}/${folder}`)).filter(() => isMeant());
      for (const name of names) await session.delete(`${ROOT}/${folder}/${name}`);
    });

  return sessionWorld({
    cluster,
    targetOn: (ports) => ({ zookeeper: ports.map((port) => `127.0.0.1:${port}`).join(',') }),
    sample: async () => ({
      rows: (await inSession((session) => session.childrenOf(`${ROOT}/l`))).length,
    }),
    more: {
      deleteDocuments: () => deleteAll('l'),
      /** Takes away the presence of clients: those for which `isMeant` says so. */
      endSessions: (isMeant) => deleteAll('s', isMeant),
    },
  });
}
