/** A system whose states can all be visited: small enough, and each step written down. */
export interface Model<State> {
  readonly start: State;
  /** The steps that may happen next. */
  steps(state: State): Iterable<Step<State>>;
  /** A text that two states share only if they are one. */
  keyOf(state: State): string;
  /** Why this state must not be reached, or `undefined`. */
  violation(state: State): string | undefined;
}

export interface Step<State> {
  readonly name: string;
  readonly to: State;
}

export interface Exploration {
  readonly states: number;
  /** All that can be reached was visited. */
  readonly isComplete: boolean;
  /** The shortest way to a violation. */
  readonly violation?: { readonly what: string; readonly trace: readonly string[] };
}

/** How a state was reached first. */
interface Way {
  readonly from: number;
  readonly step: number;
}

/**
 * Visits all states breadth first, so that the first violation found has the shortest trace.
 *
 * States are told apart by 53 bits of a hash: with a million of them, two that are taken for one are expected in fewer
 * than one run of ten thousand.
 */
export function explore<State>(model: Model<State>, mostStates: number): Exploration {
  const seen = new Set([hash(model.keyOf(model.start))]);
  const ways: Way[] = [{ from: -1, step: 0 }];
  let frontier: [index: number, state: State][] = [[0, model.start]];

  const found = (index: number, what: string): Exploration => {
    const isComplete = frontier.length === 0;
    return { states: ways.length, isComplete, violation: { what, trace: traceTo(model, ways, index) } };
  };

  const first = model.violation(model.start);
  if (first) return found(0, first);
  while (frontier.length > 0) {
    const next: typeof frontier = [];
    for (const [from, state] of frontier) {
      let step = -1;
      for (const { to } of model.steps(state)) {
        step += 1;
        const key = hash(model.keyOf(to));
        if (seen.has(key)) continue;
        const index = ways.length;
        seen.add(key);
        ways.push({ from, step });
        const what = model.violation(to);
        if (what) return found(index, what);
        next.push([index, to]);
      }
    }
    frontier = next;
    if (ways.length > mostStates) return { states: ways.length, isComplete: false };
  }
  return { states: ways.length, isComplete: true };
}

/** Takes the steps again: visited states are not kept. */
function traceTo<State>(model: Model<State>, ways: readonly Way[], index: number): string[] {
  const path: Way[] = [];
  for (let way = ways[index]; way && way.from >= 0; way = ways[way.from]) path.unshift(way);
  let state = model.start;
  return path.map(({ step }) => {
    const { name, to } = [...model.steps(state)][step] as Step<State>;
    state = to;
    return name;
  });
}

/** Looked up once: Jest's context asks an interceptor for each use of a global, which took most of the time here. */
const { imul } = Math;

/** Two rounds of FNV-1a with different seeds, as one number below 2^53. */
function hash(text: string): number {
  let a = 0x811c9dc5;
  let b = 0x9e3779b9;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    a = imul(a ^ code, 0x01000193);
    b = imul(b ^ code, 0x85ebca6b);
    b ^= b >>> 13;
  }
  return (a >>> 0) * 0x200000 + ((b >>> 0) & 0x1fffff);
}
