import { startEtcdCluster } from '#etcd-server';
import { until } from '#until';
import { sessionWorld } from './sessions.mjs';

const ROOT = 'nest-lock/';
const ANSWER_MS = 1000;
const base64 = (text) => Buffer.from(text).toString('base64');
/** All keys that begin with `prefix`. */
const prefixed = (prefix) => ({
  key: base64(prefix),
  range_end: base64(`${prefix.slice(0, -1)}${String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1)}`),
});

/** Three members of etcd. @param {import('../index.d.mts').Kind} kind */
export async function openEtcd(kind) {
  const cluster = await startEtcdCluster(3, { settings: kind.settings });
  const { members } = cluster;

  /** Asks the members in turn, as one of them may be the victim of a fault. */
  const call = async (path, body, within) => {
    let answer;
    await until(async () => {
      for (const { url } of members) answer ??= await post(`${url}/v3/${path}`, body).catch(() => undefined);
      return answer !== undefined;
    }, within);
    return answer;
  };
  const count = async (prefix) =>
    Number((await call('kv/range', { ...prefixed(prefix), count_only: true })).count ?? 0);

  return sessionWorld({
    cluster,
    targetOn: (ports) => ({ etcd: ports.map((port) => `http://127.0.0.1:${port}`) }),
    sample: async () => ({ rows: await count(`${ROOT}l/`) }),
    more: {
      deleteDocuments: () => call('kv/deleterange', prefixed(`${ROOT}l/`)),
      /** Ends sessions of clients: those for which `isMeant` says so. */
      async endSessions(isMeant) {
        const { leases = [] } = await call('lease/leases', {});
        const meant = leases.filter(() => isMeant());
        await Promise.all(meant.map(({ ID }) => call('lease/revoke', { ID })));
      },
      /** Forgets all but the newest revision, on disk too. */
      async compact() {
        const { header } = await call('kv/range', { key: base64(ROOT) });
        await call('kv/compaction', { revision: header.revision, physical: true });
      },
      async setNoSpace(isOn) {
        const { header } = await call('kv/range', { key: base64(ROOT) });
        const action = isOn ? 'ACTIVATE' : 'DEACTIVATE';
        await call('maintenance/alarm', { action, memberID: header.member_id, alarm: 'NOSPACE' });
        if (isOn) return;
        const { alarms = [] } = await call('maintenance/alarm', { action: 'GET' });
        for (const { memberID, alarm } of alarms)
          await call('maintenance/alarm', { action, memberID, alarm });
      },
    },
  });
}

/** @throws Error for an answer that is none, so that it is asked again */
async function post(url, body) {
  const answer = await fetch(url, {
    method: 'POST',
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  const told = await answer.json();
  // Who compacts twice, or revokes a lease that is over, has what it wants.
  if (!answer.ok && !/compacted|not found/.test(JSON.stringify(told))) throw new Error(JSON.stringify(told));
  return told;
}
