/** Tokens are whole numbers from 1 on; 0 stands for none. Times are ticks that are left. */
export type Token = number;

/** Names a tenure: the process is its first digit. */
export type Owner = number;
export const NOBODY: Owner = -1;
export const JAVA: Owner = -2;
/** An owner that has released with a minimum hold: a name that no message has. */
export const KEEPER: Owner = -3;

export const ownerOf = (process: number, tenure: number): Owner => process * 10 + tenure;
export const processOf = (owner: Owner): number => Math.floor(owner / 10);

export interface State {
  // --- Redis ---
  lock: Owner;
  left: number;
  first: Token;
  last: Token;
  /** The server's clock, on the scale of tokens. */
  time: Token;
  /** Owner of the last grant that was pushed and not confirmed. */
  granted: Owner;
  /** Only foreign clients may take the free lock. */
  open: boolean;
  line: { owner: Owner; until: number }[];
  // --- the rest of the world ---
  processes: Process[];
  net: Message[];
  java: 'idle' | 'waiting' | 'inside' | 'done';
  faults: number;
  aborts: number;
  // --- what only we see ---
  top: Token;
  served: Token[];
  /** Owners whose lock was lost with its data: that they still believe is no violation. */
  wiped: Owner[];
  /** For how many ticks nobody may be granted the key, after a release with a minimum hold. */
  kept: number;
  /** The clock of the server has gone back with a loss of data. */
  wasBehind: boolean;
  broken: string;
}

export interface Process {
  isUp: boolean;
  /** No push reaches it: its subscription is being made anew. */
  isDeaf: boolean;
  todo: number;
  waiting: number;
  /** The token of the caller inside. */
  inside: Token;
  isFrozen: boolean;
  tenure: Tenure | undefined;
  ends: End[];
  floor: Token;
  seen: Token;
}

export interface Tenure {
  owner: Owner;
  state: 'waiting' | 'confirming' | 'held';
  isAsking: boolean;
  isRenewing: boolean;
  /** Told that it stands in line. */
  isInStoreQueue: boolean;
  /** Has asked, or renewed, since the last tick. */
  isUpToDate: boolean;
  mayBeKnown: boolean;
  isConfirmed: boolean;
  first: Token;
  last: Token;
  next: Token;
  belief: number;
  /** How long an unanswered acquire may still be executed; -1 when none is left. */
  late: number;
}

export interface End {
  owner: Owner;
  used: Token;
  blockEnd: Token;
  late: number;
  /** How long the key is to stay held. */
  keep: number;
  isSent: boolean;
  isUpToDate: boolean;
  attempts: number;
  /** Only leaves the line: for rule P5. */
  isCancel: boolean;
}

export interface Message {
  kind: 'acquire' | 'renew' | 'end' | 'granted' | 'queued' | 'renewed' | 'lost' | 'ended' | 'push';
  owner: Owner;
  /** Its owner waits for the key no longer. */
  isLate: boolean;
  /** It may take longer than the others, which arrive before the next tick. */
  isSlow: boolean;
  age: number;
  notAfter: number;
  belief: number;
  first: Token;
  last: Token;
  floor: Token;
  keep: number;
  flag: boolean;
}

export function copyOf(state: State): State {
  return {
    ...state,
    line: state.line.map((entry) => ({ ...entry })),
    processes: state.processes.map((process) => ({
      ...process,
      tenure: process.tenure && { ...process.tenure },
      ends: process.ends.map((end) => ({ ...end })),
    })),
    net: state.net.map((message) => ({ ...message })),
    served: [...state.served],
    wiped: [...state.wiped],
  };
}

/** Lets `map` replace each token of a state. */
function eachToken(s: State, map: (token: Token) => Token): void {
  s.first = map(s.first);
  s.last = map(s.last);
  s.time = map(s.time);
  s.top = map(s.top);
  for (let i = 0; i < s.served.length; i++) s.served[i] = map(s.served[i] as Token);
  for (const p of s.processes) {
    p.inside = map(p.inside);
    p.floor = map(p.floor);
    p.seen = map(p.seen);
    if (p.tenure) {
      p.tenure.first = map(p.tenure.first);
      p.tenure.last = map(p.tenure.last);
      p.tenure.next = map(p.tenure.next);
    }
    for (const end of p.ends) {
      end.used = map(end.used);
      end.blockEnd = map(end.blockEnd);
    }
  }
  for (const it of s.net) {
    it.first = map(it.first);
    it.last = map(it.last);
    it.floor = map(it.floor);
  }
}

const WIDEST_GAP = 4;
const LARGEST_TOKEN = 400;
const short = new Int16Array(LARGEST_TOKEN);

/**
 * Moves tokens together, in place: only their order, and what lies within a block of each other, has a meaning. The
 * states are then finitely many however long the system runs.
 */
export function normalise(s: State): State {
  let largest = 0;
  eachToken(s, (token) => {
    short[token] = 1;
    if (token > largest) largest = token;
    return token;
  });
  let before = 0;
  let at = 0;
  for (let token = 1; token <= largest; token++) {
    if (short[token] === 0) continue;
    at += Math.min(token - before, WIDEST_GAP);
    short[token] = at;
    before = token;
  }
  short[0] = 0;
  eachToken(s, (token) => short[token] as Token);
  short.fill(0, 0, largest + 1);
  s.served.sort((a, b) => a - b);
  if (s.net.length > 1) s.net.sort((a, b) => (textOf(a) < textOf(b) ? -1 : 1));
  return s;
}

function textOf(it: Message): string {
  const { kind, owner, age, notAfter, belief, first, last, floor, keep } = it;
  return `${kind}${owner},${age},${notAfter},${belief},${first},${last},${floor},${keep}${bits(it.isLate, it.isSlow, it.flag)}`;
}

function bits(...flags: boolean[]): string {
  let number = 0;
  for (const flag of flags) number = number * 2 + (flag ? 1 : 0);
  return `;${number};`;
}

/** All that tells two states apart. */
export function keyOf(s: State): string {
  let key = `${s.lock},${s.left},${s.first},${s.last},${s.time},${s.granted},${s.java},${s.faults},${s.aborts},${s.top}`;
  key += `${bits(s.open, s.wasBehind)}${s.served.join()};${s.wiped.join()};${s.broken}`;
  if (s.kept > 0) key += `kept${s.kept}`;
  for (const { owner, until } of s.line) key += `|${owner},${until}`;
  for (const p of s.processes) {
    key += `/${p.todo},${p.waiting},${p.inside},${p.floor},${p.seen}${bits(p.isUp, p.isDeaf, p.isFrozen)}`;
    const t = p.tenure;
    if (t) {
      key += `${t.owner},${t.state},${t.first},${t.last},${t.next},${t.belief},${t.late}`;
      key += bits(t.isAsking, t.isRenewing, t.isInStoreQueue, t.isUpToDate, t.mayBeKnown, t.isConfirmed);
    }
    for (const end of p.ends) {
      key += `!${end.owner},${end.used},${end.blockEnd},${end.late},${end.keep},${end.attempts}${bits(end.isSent, end.isCancel, end.isUpToDate)}`;
    }
  }
  for (const it of s.net) key += `\n${textOf(it)}`;
  return key;
}

/** A number that no message, mark or memory has: names of ended tenures are used again, so that they are few. */
export function freshOwner(s: State, process: number): Owner {
  for (let tenure = 0; ; tenure++) {
    const owner = ownerOf(process, tenure);
    const p = s.processes[process] as Process;
    const isUsed =
      s.lock === owner ||
      s.granted === owner ||
      s.wiped.includes(owner) ||
      s.line.some((it) => it.owner === owner) ||
      s.net.some((it) => it.owner === owner) ||
      p.ends.some((it) => it.owner === owner);
    if (!isUsed) return owner;
  }
}
