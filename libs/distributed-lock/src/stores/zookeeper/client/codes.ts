/** Codes with which ZooKeeper answers that something was not done. */
export const CODE = {
  ok: 0,
  /** In a multi: another of its operations has failed. */
  otherFailed: -2,
  connectionLoss: -4,
  marshalling: -5,
  unimplemented: -6,
  badArguments: -8,
  noNode: -101,
  noAuth: -102,
  badVersion: -103,
  nodeExists: -110,
  notEmpty: -111,
  sessionExpired: -112,
  invalidAcl: -114,
  authFailed: -115,
  sessionMoved: -118,
  quotaExceeded: -125,
  throttled: -127,
} as const;

const WORDS = new Map<number, string>([
  [CODE.connectionLoss, 'it lost its own connection'],
  [CODE.marshalling, 'it could not read the request'],
  [CODE.unimplemented, 'it does not know this request; ZooKeeper 3.5 or later is needed'],
  [CODE.badArguments, 'a path or a value is not allowed'],
  [CODE.noNode, 'a znode does not exist'],
  [CODE.noAuth, 'this client has no right to the znode: check the option auth'],
  [CODE.badVersion, 'the znode has another version'],
  [CODE.nodeExists, 'the znode exists'],
  [CODE.notEmpty, 'the znode has children'],
  [CODE.sessionExpired, 'the session has expired'],
  [CODE.invalidAcl, 'it does not take the ACL: check the option auth'],
  [CODE.authFailed, 'the authentication failed: check the option auth'],
  [CODE.sessionMoved, 'the session has moved to another server'],
  [CODE.quotaExceeded, 'a quota is exceeded: raise it, or remove it with delquota'],
  [CODE.throttled, 'it has too much to do'],
]);

/** A server has refused a request, which was certainly not executed. */
export class ZookeeperRefusal extends Error {
  constructor(readonly code: number) {
    super(`${WORDS.get(code) ?? 'an error of ZooKeeper'} (code ${code})`);
  }
}
