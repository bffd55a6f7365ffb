import { LOCK } from '../../../libs/distributed-lock/src/port/claim.js';
import type { AcquireRequest } from '../../../libs/distributed-lock/src/port/lock-store.js';
import {
  clientOf,
  clientsOf,
  FREE,
  isFree,
  isOver,
  type Reading,
  resolveAll,
} from '../../../libs/distributed-lock/src/stores/core/document.js';
import { KeyState, noteOf } from '../../../libs/distributed-lock/src/stores/core/key-state.js';
import type { Model, Step } from './explorer.js';
import {
  INITIAL_LEASE_MS,
  LEASE_MS,
  TICK_MS,
  type Call,
  type Client,
  type DocumentRule,
  type Row,
  type State,
} from './document-state.js';

export interface DocumentWorld {
  readonly clients: number;
  /** How often each client asks. */
  readonly rounds: number;
  /** A request that is slow, or a client that is killed. A free row may be deleted at any time. */
  readonly faults: number;
  readonly ticks: number;
  readonly off?: DocumentRule;
}

interface Reply {
  readonly isDone: boolean;
  readonly reading: Reading;
}

/** Any client that writes next. */
const WRITER = {
  clientId: 'writer',
  minToken: 0,
  nonce: '',
  initialLeaseMs: INITIAL_LEASE_MS,
  areRenewalsWritten: true,
};
const ROUND_OF = /^c(\d+):(\d+)$/;
const ownerOf = (client: number, { owners }: Client): string => `c${client}:${owners}`;

/**
 * One document and its clients, with the library's own `KeyState`. A step is one call of the register with its reply, one
 * message, or one tick. A client takes its due steps before the next tick.
 */
export class DocumentProtocol implements Model<State> {
  readonly start: State;

  constructor(private readonly world: DocumentWorld) {
    const client: Client = {
      isDead: false,
      owners: 0,
      phase: 'idle',
      task: undefined,
      fresh: undefined,
      seen: undefined,
      validUntil: -1,
      lateNotAfter: -1,
      rests: false,
    };
    const clients = Array.from({ length: world.clients }, () => client);
    const { faults } = world;
    this.start = { now: 0, row: undefined, lastVersion: 0, clients, net: [], faults, top: 0, broken: '' };
  }

  keyOf(state: State): string {
    return JSON.stringify(state);
  }

  violation(state: State): string | undefined {
    const { broken, clients, row, now } = state;
    if (broken) return broken;
    const believers = clients.filter(
      ({ phase, task, validUntil }) => phase === 'held' && task !== 'release' && now < validUntil,
    );
    if (believers.length > 1) return 'two owners hold the lock, and both believe in it';
    if (believers.some((client) => !this.isHolder(state, client))) return 'a holder is not in the document';
    if (!row) return undefined;
    const { document, notes } = row;
    if (isFree(document) && notes.length > 0) return 'an owner sleeps beside a free key';
    const next = new KeyState(this.reply(state, true).reading, now, WRITER).document;
    const isLeft = [...next.holders, ...next.queue].some(
      ({ owner, until }) => this.isGone(clients, owner) && !isOver(until, now),
    );
    return isLeft ? 'an owner that was released holds or waits' : undefined;
  }

  *steps(state: State): Iterable<Step<State>> {
    for (const [i, client] of state.clients.entries()) if (!client.isDead) yield* this.clientSteps(state, i);
    for (const [i, message] of state.net.entries()) {
      const net = state.net.filter((each) => each !== message);
      const without = { ...state, net };
      if (message.kind === 'push') {
        const name = `a notification reaches client ${message.client}`;
        yield { name, to: this.onPush(without, message.client, message.reading) };
      } else {
        const isLate = state.now > message.notAfter && this.has('D2 not after');
        const to = isLate ? without : this.execute(without, message.client, message.call)[0];
        yield { name: `request ${i} of client ${message.client} is executed late`, to };
      }
    }
    if (state.row && isFree(state.row.document) && state.row.lastToken <= state.now * 1000)
      yield { name: 'the free row is deleted', to: { ...state, row: undefined } };
    const isDue = state.clients.some(({ task, rests, isDead }) => task && !rests && !isDead);
    if (!isDue && state.now < this.world.ticks * TICK_MS) yield { name: 'a tick', to: this.tick(state) };
  }

  private *clientSteps(state: State, i: number): Iterable<Step<State>> {
    const client = state.clients[i] as Client;
    const { phase, task, owners } = client;
    const name = `client ${i}`;
    if (state.faults > 0 && (task || phase !== 'idle')) {
      const dead = { ...client, isDead: true };
      yield { name: `${name} is killed`, to: { ...put(state, i, dead), faults: state.faults - 1 } };
    }
    if (client.rests) return;
    if (task) return yield* this.calls(state, i);
    if (phase === 'idle' && owners < this.world.rounds)
      yield* this.begin(state, i, { ...client, owners: owners + 1, lateNotAfter: -1 }, 'acquire');
    if (phase === 'queued') yield* this.begin(state, i, client, 'acquire');
    if (phase !== 'idle') yield* this.begin(state, i, client, 'release');
  }

  private *begin(state: State, i: number, client: Client, task: 'acquire' | 'release') {
    yield* this.calls(put(state, i, { ...client, task, fresh: undefined }), i);
  }

  /** The next call for the task of a client. It is executed and answered at once, or late and never answered. */
  private *calls(state: State, i: number): Iterable<Step<State>> {
    const client = state.clients[i] as Client;
    const call = this.nextCall(state, i, client);
    const name = `client ${i} ${client.task}s: ${call.kind}`;
    if (call.kind === 'read' && client.seen && !this.has('D7 no answer from an old reading')) {
      const old = { isDone: false, reading: client.seen };
      return yield { name: `${name} nothing`, to: this.onReply(state, i, call, old) };
    }
    const [executed, reply] = this.execute(state, i, call);
    yield { name, to: this.onReply(executed, i, call, reply) };
    if (state.faults === 0 || call.kind === 'read') return;
    const notAfter = state.now + TICK_MS;
    const net = [...state.net, { kind: 'request', client: i, call, notAfter } as const];
    // The caller gives up. A release is repeated in the next tick.
    const lateNotAfter = client.task === 'acquire' ? notAfter : client.lateNotAfter;
    const unanswered: Client = {
      ...client,
      task: 'release',
      fresh: undefined,
      rests: client.task === 'release',
      lateNotAfter,
    };
    yield { name: `${name}, slowly`, to: { ...put(state, i, unanswered), net, faults: state.faults - 1 } };
  }

  /** What a lane does next: see `Lane.execute`. */
  private nextCall(state: State, i: number, client: Client): Call {
    const { task, fresh, seen } = client;
    const owner = ownerOf(i, client);
    const base = fresh ?? seen;
    if (task === 'acquire' && (!fresh || fresh.version === undefined)) return { kind: 'take', owner };
    if (!base) return { kind: 'read' };
    const { isChanged, document: next, lastToken, isExact, notified } = this.apply(state, i, client, base);
    return isChanged
      ? { kind: 'swap', expected: base, next, lastToken, isExact, notified }
      : { kind: 'read' };
  }

  private apply({ now }: State, i: number, client: Client, reading: Reading): KeyState {
    const key = new KeyState(reading, now, {
      clientId: `c${i}`,
      minToken: 0,
      nonce: '',
      initialLeaseMs: INITIAL_LEASE_MS,
      areRenewalsWritten: true,
    });
    const owner = ownerOf(i, client);
    const mayHaveNote = client.lateNotAfter >= 0;
    if (client.task === 'acquire') key.acquire(requestOf(owner));
    else key.release({ owner }, { mayHaveNote });
    return key;
  }

  private execute(state: State, i: number, call: Call): [State, Reply] {
    const { row } = state;
    if (call.kind === 'read') return [state, this.reply(state, false)];
    if (call.kind === 'take') return this.take(state, i, call.owner);
    const { expected, next, lastToken, notified } = call;
    const isExact = call.isExact && this.has('D4 exact writes');
    const isSame = row !== undefined && row.version === expected.version;
    if (!isSame || (isExact && row.notes.length !== expected.notesRead))
      return [state, this.reply(state, false)];
    const notes = this.has('D5 unread notes are kept') ? row.notes.slice(expected.notesRead) : [];
    const written = this.write(state, { document: resolveAll(next, state.now), notes, lastToken });
    const pushed = this.push(written, notified);
    return [pushed, this.reply(pushed, true)];
  }

  private take(state: State, i: number, owner: string): [State, Reply] {
    const { row, now } = state;
    const request = requestOf(owner);
    if (!row || isFree(row.document)) {
      const token = Math.max(row?.lastToken ?? 0, now * 1000) + 1;
      const holder = { owner, claim: LOCK, token, lastToken: token, until: now + LEASE_MS };
      const document = { holders: [holder], queue: [] };
      const taken = this.write(state, { document, notes: [], lastToken: token });
      return [taken, this.reply(taken, true)];
    }
    if (!this.has('D3 notes')) return [state, this.reply(state, false)];
    const at = Math.max(now * 1000, (row.notes.at(-1)?.at ?? 0) + 1);
    const noted = {
      ...state,
      row: { ...row, notes: [...row.notes, { ...noteOf(request, { minToken: 0, nonce: '' }), at }] },
    };
    const notified = this.push(
      noted,
      clientsOf(row.document.holders).filter((client) => client !== `c${i}`),
    );
    return [notified, this.reply(notified, false)];
  }

  private write(state: State, next: Omit<Row, 'version'>): State {
    const before = state.row;
    const isAnew = !this.has('D1 versions are never used twice');
    const lastVersion = isAnew ? (before?.version ?? 0) + 1 : state.lastVersion + 1;
    const granted = next.document.holders.filter(
      ({ token }) => !before?.document.holders.some((each) => each.token === token),
    );
    let broken = '';
    for (const { token } of granted) if (token <= state.top) broken = 'a token is not larger than the last';
    const there = [...next.document.holders, ...next.document.queue, ...next.notes];
    const lost = before?.notes.find(
      ({ owner, at, waitMs }) =>
        at / 1000 + waitMs > state.now &&
        state.clients.some(
          (client, i) => client.phase === 'queued' && !client.task && ownerOf(i, client) === owner,
        ) &&
        !before.document.holders.some((each) => each.owner === owner) &&
        !there.some((each) => each.owner === owner),
    );
    if (lost) broken = 'the note of an owner that waits is lost';
    const entered = granted[0];
    const older = next.notes.find(({ owner }) => owner !== entered?.owner);
    if (entered && older && !before?.document.queue.some(({ owner }) => owner === entered.owner)) {
      const own = before?.notes.find(({ owner }) => owner === entered.owner);
      if (!own || own.at > older.at) broken = 'an owner overtakes one that has asked before it';
    }
    const top = Math.max(state.top, ...granted.map(({ token }) => token));
    return { ...state, row: { ...next, version: lastVersion }, lastVersion, top, broken };
  }

  private push(state: State, clients: readonly string[]): State {
    const { reading } = this.reply(state, true);
    const pushes = clients.map((id) => ({ kind: 'push', client: Number(id.slice(1)), reading }) as const);
    return { ...state, net: [...state.net, ...pushes] };
  }

  private reply({ row, now, lastVersion }: State, isDone: boolean): Reply {
    const { document, notes, lastToken } = row ?? { document: FREE, notes: [], lastToken: 0 };
    const version = row?.version;
    const order = version ?? lastVersion;
    const notesRead = notes.length;
    return {
      isDone,
      reading: {
        version,
        order,
        document,
        notes,
        notesRead,
        lastToken,
        now,
        ticks: now * 1000,
        nextTicket: now * 1000,
      },
    };
  }

  private onReply(state: State, i: number, call: Call, { isDone, reading }: Reply): State {
    const before = state.clients[i] as Client;
    if (call.kind === 'swap' && !isDone && before.task === 'acquire' && !this.has('D3 notes'))
      return { ...state, broken: 'a waiter has lost the swap that puts it in the queue' };
    const client = { ...before, fresh: reading, seen: newer(before.seen, reading) };
    const isAnswer = isDone || !this.apply(state, i, client, reading).isChanged;
    if (call.kind === 'take' && isDone) return put(state, i, held(client, state.now));
    if (!isAnswer) return put(state, i, client);
    if (client.task === 'release') return this.onReleased(state, i, client);
    const holds = reading.document.holders.some(({ owner }) => owner === ownerOf(i, client));
    const answered = { ...client, task: undefined, fresh: undefined };
    return put(state, i, holds ? held(client, state.now) : { ...answered, phase: 'queued', rests: true });
  }

  private onReleased(state: State, i: number, client: Client): State {
    const isOver = state.now > client.lateNotAfter || !this.has('D2 repeated release');
    if (!isOver) return put(state, i, { ...client, fresh: undefined, rests: true });
    return put(state, i, { ...client, task: undefined, fresh: undefined, phase: 'idle' });
  }

  private onPush(state: State, i: number, reading: Reading): State {
    const client = state.clients[i] as Client;
    const seen = newer(client.seen, reading);
    const owner = ownerOf(i, client);
    const isGranted = client.phase === 'queued' && seen.document.holders.some((each) => each.owner === owner);
    return put(state, i, { ...client, seen, rests: client.rests && !(isGranted && !client.task) });
  }

  private tick(state: State): State {
    const now = state.now + TICK_MS;
    const clients = state.clients.map((client) => ({ ...client, rests: false }));
    return { ...state, now, clients };
  }

  private isHolder({ row, clients }: State, client: Client): boolean {
    const owner = ownerOf(clients.indexOf(client), client);
    return row?.document.holders.some((each) => each.owner === owner) ?? false;
  }

  /** The owner of a live client that has been released. */
  private isGone(clients: readonly Client[], owner: string): boolean {
    const client = clients[Number(clientOf(owner).slice(1))] as Client;
    const round = Number(ROUND_OF.exec(owner)?.[2]);
    const isOver = round < client.owners || (client.phase === 'idle' && !client.task);
    return !client.isDead && isOver;
  }

  private has(rule: DocumentRule): boolean {
    return this.world.off !== rule;
  }
}

function requestOf(owner: string): AcquireRequest {
  return { key: 'k', owner, claim: LOCK, leaseMs: LEASE_MS, waitMs: LEASE_MS, ticket: 0, tokens: 1 };
}

function put(state: State, i: number, client: Client): State {
  return { ...state, clients: state.clients.map((each, j) => (j === i ? client : each)) };
}

function held(client: Client, sentAt: number): Client {
  const validUntil = sentAt + LEASE_MS;
  return { ...client, task: undefined, fresh: undefined, phase: 'held', validUntil };
}

function newer(seen: Reading | undefined, reading: Reading): Reading {
  const isOlder =
    seen &&
    (reading.order < seen.order || (reading.order === seen.order && reading.notesRead < seen.notesRead));
  return isOlder ? seen : reading;
}
