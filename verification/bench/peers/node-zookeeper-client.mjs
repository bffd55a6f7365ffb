// It has no lock, so this is the one of ZooKeeper's recipes: who has the first of the sequential znodes below the key's holds
// the lock, and each other watches the one before its own.
import { once } from 'node:events';
import { promisify } from 'node:util';
import zookeeper from 'node-zookeeper-client';

const { CreateMode, Exception } = zookeeper;
const PREFIX = 'lock-';

/** @type {import('../contestants/contestant.d.mts').OpenContestant} */
export async function open(url) {
  const client = zookeeper.createClient(new URL(url).host);
  const connected = once(client, 'connected');
  client.connect();
  await connected;
  const create = promisify(client.create.bind(client));
  const childrenOf = promisify(client.getChildren.bind(client));
  const remove = promisify(client.remove.bind(client));
  /** The keys whose znode exists. */
  const known = new Set();

  return {
    async run(key, work) {
      const parent = `/${key.replaceAll('/', '%2F')}`;
      if (!known.has(parent)) await createParent(parent);
      const own = await create(`${parent}/${PREFIX}`, null, CreateMode.EPHEMERAL_SEQUENTIAL);
      try {
        await untilFirst(parent, own.slice(parent.length + 1));
        return await work();
      } finally {
        await remove(own);
      }
    },
  };

  async function createParent(parent) {
    try {
      await create(parent, null, CreateMode.PERSISTENT);
    } catch (error) {
      if (error.getCode?.() !== Exception.NODE_EXISTS) throw error;
    }
    known.add(parent);
  }

  async function untilFirst(parent, own) {
    for (;;) {
      const children = (await childrenOf(parent)).sort();
      const before = children[children.indexOf(own) - 1];
      if (before === undefined) return;
      await untilGone(`${parent}/${before}`);
    }
  }

  /** @param {string} path */
  function untilGone(path) {
    return new Promise((resolve, reject) => {
      client.exists(path, resolve, (error, stat) => {
        if (error) reject(error);
        else if (!stat) resolve(undefined);
      });
    });
  }
}
