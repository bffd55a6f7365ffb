// The least that a lock on ZooKeeper costs: the creation of an ephemeral znode, and its deletion. Over 8 connections, each with
// a session. It cannot wait.
import { bareLock } from '../bare-lock.mjs';
import { connectZookeeper } from './zookeeper-api.mjs';

const CONNECTIONS = 8;

/** @type {import('../contestant.d.mts').OpenContestant} */
export async function open(url) {
  const connections = await Promise.all(Array.from({ length: CONNECTIONS }, () => connectZookeeper(url)));
  const pathOf = (key) => `/${key.replaceAll('/', '%2F')}`;
  return bareLock(connections, {
    take: (connection, [key, owner]) => connection.createEphemeral(pathOf(key), owner).then(() => true),
    giveBack: (connection, [key]) => connection.remove(pathOf(key)),
  });
}
