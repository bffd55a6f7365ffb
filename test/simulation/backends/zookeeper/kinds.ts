import type { Operation, WireRequest } from './requests.js';

/** Names of requests. Each reply is called `re:` and the name of its request, and an event of a watch `message`. */
export const REQUEST_KINDS = [
  'open session',
  'resume session',
  'end session',
  'keep-alive',
  'sync to stay alive',
  'sync',
  'presence',
  'read mailbox',
  'take',
  'swap',
  'note',
  'tell',
  'read',
  'read notes',
  'ask for sessions',
] as const;

/** Of documents, mailboxes, notes and sessions. */
const BEGINNINGS = {
  l: '/nest-lock/l/',
  m: '/nest-lock/m/',
  q: '/nest-lock/q/',
  s: '/nest-lock/s/',
} as const;

type Space = keyof typeof BEGINNINGS;
type Kind = (typeof REQUEST_KINDS)[number] | 'sweep' | 'other';

export function kindOf(request: WireRequest): Kind {
  switch (request.op) {
    case 'handshake':
      return request.session === 0n ? 'open session' : 'resume session';
    case 'close session':
      return 'end session';
    case 'sync':
      return request.path === '' ? 'sync to stay alive' : 'sync';
    case 'multi':
      return kindOfMulti(request.operations);
    case 'data':
      return isBelow('m', request) ? 'read mailbox' : 'read';
    case 'children':
      return isBelow('q', request) ? 'read notes' : 'sweep';
    case 'exists':
      return isBelow('s', request) ? 'ask for sessions' : 'sweep';
  }
}

/** A multi is called by what it changes most. */
function kindOfMulti(operations: readonly Operation[]): Kind {
  const has = (space: Space, op: Operation['op']): boolean => {
    for (const each of operations) if (each.op === op && isBelow(space, each)) return true;
    return false;
  };
  if (has('l', 'create')) return 'take';
  if (has('l', 'set data')) return 'swap';
  if (has('q', 'set data')) return 'note';
  if (has('s', 'create') || has('m', 'create')) return 'presence';
  if (has('s', 'set data')) return 'keep-alive';
  if (has('m', 'set data')) return 'tell';
  return has('l', 'delete') ? 'sweep' : 'other';
}

function isBelow(space: Space, { path }: { readonly path: string }): boolean {
  return path.startsWith(BEGINNINGS[space]);
}
