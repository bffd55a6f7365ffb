import { describe, expect, it } from '@jest/globals';
import { etcdFailure } from './member.js';

const error = (code: number, details: string) =>
  Object.assign(new Error(`${code} ${details}`), { code, details });

describe('an error of etcd or gRPC', () => {
  it.each<[string, number, string, object]>([
    ['without a leader', 14, 'etcdserver: no leader', { reason: 'unready', isOfMember: true }],
    [
      'of an unanswered proposal',
      14,
      'etcdserver: request timed out',
      { reason: 'unknown', isOfMember: true },
    ],
    [
      'of a proposal that a change of leaders has cut short',
      14,
      'etcdserver: request timed out, possibly due to previous leader failure',
      { reason: 'unknown' },
    ],
    ['of a change of leaders', 14, 'etcdserver: leader changed', { reason: 'unknown', isOfMember: true }],
    ['of a server that stops', 14, 'etcdserver: server stopped', { reason: 'unknown', isOfMember: true }],
    [
      'of a learner',
      14,
      'etcdserver: rpc not supported for learner',
      { reason: 'unready', isOfMember: true },
    ],
    [
      'of a full database',
      8,
      'etcdserver: mvcc: database space exceeded',
      { reason: 'unknown', isAnswered: true },
    ],
    ['of too many requests', 8, 'etcdserver: too many requests', { reason: 'unready' }],
    ['of a lease that is gone', 5, 'etcdserver: requested lease not found', { isLeaseGone: true }],
    ['of an old token', 16, 'etcdserver: invalid auth token', { reason: 'unready', needsToken: true }],
    ['of changed rights', 3, 'etcdserver: revision of auth store is old', { needsToken: true }],
    ['of missing rights', 7, 'etcdserver: permission denied', { reason: 'refused' }],
    ['of a request without a user', 3, 'etcdserver: user name is empty', { reason: 'refused' }],
    ['of a large request', 3, 'etcdserver: request is too large', { reason: 'refused', isTooLarge: true }],
    [
      'of a request that is larger than its gRPC takes',
      8,
      'grpc: received message larger than max (2900000 vs. 2097152)',
      { reason: 'refused', isTooLarge: true },
    ],
    ['that is new', 3, 'etcdserver: something new', { reason: 'refused', detail: 'something new' }],
    [
      'of a connection that was not made',
      14,
      'No connection established. Last error: Error: connect ECONNREFUSED 127.0.0.1:1. Resolution note: ',
      { reason: 'unreachable', detail: 'connect ECONNREFUSED 127.0.0.1:1', isOfMember: true },
    ],
    [
      'of a connection that was reset before etcd has spoken',
      14,
      'No connection established. Last error: Error: read ECONNRESET. Resolution note: ',
      { reason: 'unreachable', detail: expect.stringContaining('is it etcd?') },
    ],
    ['of a name that is not known', 14, 'Name resolution failed for target dns:x', { reason: 'unreachable' }],
    ['of a connection that broke', 14, 'Connection dropped', { reason: 'unknown', isOfMember: true }],
    ['of a stream that was ended', 13, 'Received RST_STREAM with code 2', { reason: 'unknown' }],
    ['of another kind of server', 12, 'unknown service etcdserverpb.KV', { reason: 'refused' }],
  ])('%s says whether the request was executed', (_, code, details, expected) => {
    expect(etcdFailure(error(code, details))).toMatchObject(expected);
  });

  it('that is none of theirs leaves the outcome unknown', () => {
    expect(etcdFailure(new Error('odd'))).toMatchObject({ reason: 'unknown', detail: 'odd' });
    expect(etcdFailure('odd')).toMatchObject({ reason: 'unknown', detail: 'odd' });
  });
});

describe('the end of a watch', () => {
  it.each<[string, string, object]>([
    [
      'by an old token asks for another',
      'rpc error: code = Unauthenticated desc = etcdserver: invalid auth token',
      { reason: 'unready', needsToken: true },
    ],
    [
      'for missing rights is a refusal',
      'rpc error: code = PermissionDenied desc = etcdserver: permission denied',
      { reason: 'refused', detail: expect.stringContaining('lacks rights') },
    ],
    [
      'for a new reason is a refusal',
      'rpc error: code = OutOfRange desc = etcdserver: something new',
      { reason: 'refused', detail: 'something new' },
    ],
    [
      'by a member without a leader asks the next one',
      'rpc error: code = Unavailable desc = etcdserver: no leader',
      { isOfMember: true },
    ],
    ['without a reason asks the next member', '', { isOfMember: true }],
  ])('%s', (_, reason, expected) => {
    expect(etcdFailure(new Error(reason))).toMatchObject(expected);
  });
});
