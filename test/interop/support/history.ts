/** One line of what a crowd has written into Redis, in the order in which Redis has received it. */
interface Entry {
  readonly what: 'enter' | 'leave';
  /** `side:process.thread` */
  readonly who: string;
  readonly name: string;
  readonly token: number;
  /** It reads, beside others that read. */
  readonly isShared: boolean;
}

function parse(line: string): Entry {
  const [what, who, name, token, kind] = line.split(' ') as [Entry['what'], string, string, string, string?];
  return { what, who, name, token: Number(token), isShared: kind === 'read' };
}

const processOf = ({ who }: Entry): string => who.slice(0, who.lastIndexOf('.'));
const sideOf = ({ who }: Entry): string => who.slice(0, who.indexOf(':'));

/**
 * What is wrong with a history: two inside one lock of which one does not read, or a token that is not larger than the last
 * one of that side. A reader's token is not looked at, nor a token of a kind of lock that has none.
 *
 * @param killed processes that never leave: whoever comes after them is not beside them
 */
export function violations(history: readonly string[], killed: ReadonlySet<string> = new Set()): string[] {
  const inside = new Map<string, readonly Entry[]>();
  const tokens = new Map<string, number>();
  const found: string[] = [];
  for (const entry of history.map(parse)) {
    const { what, who, name, token, isShared } = entry;
    const present = inside.get(name) ?? [];
    if (what === 'leave') {
      const others = present.filter((it) => it.who !== who);
      if (others.length === present.length) {
        found.push(`${who} leaves ${name}, in which is ${others[0]?.who ?? 'nobody'}`);
      }
      inside.set(name, others);
      continue;
    }
    const beside = present.filter((it) => isShared && it.isShared);
    for (const it of present) {
      if (!beside.includes(it) && !killed.has(processOf(it))) {
        found.push(`${who} enters ${name} beside ${it.who}`);
      }
    }
    inside.set(name, [...beside, entry]);
    if (isShared || Number.isNaN(token)) continue;
    const counter = `${sideOf(entry)} ${name}`;
    if (token <= (tokens.get(counter) ?? 0)) found.push(`${who} enters ${name} with the old token ${token}`);
    tokens.set(counter, token);
  }
  return found;
}

/** How often each side has entered locks whose name ends so. */
export function turnsOf(history: readonly string[], ending: string): Record<string, number> {
  const turns: Record<string, number> = { java: 0, nest: 0 };
  for (const entry of history.map(parse)) {
    if (entry.what === 'enter' && entry.name.endsWith(ending)) turns[sideOf(entry)]! += 1;
  }
  return turns;
}
