/** One line of what a crowd has written into Redis, in the order in which Redis has received it. */
interface Entry {
  readonly what: 'enter' | 'leave';
  /** `side:process.thread` */
  readonly who: string;
  readonly name: string;
  readonly token: number;
}

function parse(line: string): Entry {
  const [what, who, name, token] = line.split(' ') as [Entry['what'], string, string, string];
  return { what, who, name, token: Number(token) };
}

const processOf = ({ who }: Entry): string => who.slice(0, who.lastIndexOf('.'));
const sideOf = ({ who }: Entry): string => who.slice(0, who.indexOf(':'));

/**
 * What is wrong with a history: two inside one lock, or a token that is not larger than the last one of that side.
 *
 * @param killed processes that never leave: whoever comes after them is not beside them
 */
export function violations(history: readonly string[], killed: ReadonlySet<string> = new Set()): string[] {
  const inside = new Map<string, Entry>();
  const tokens = new Map<string, number>();
  const found: string[] = [];
  for (const entry of history.map(parse)) {
    const { what, who, name, token } = entry;
    const present = inside.get(name);
    if (what === 'leave') {
      if (present?.who !== who) found.push(`${who} leaves ${name}, in which is ${present?.who ?? 'nobody'}`);
      inside.delete(name);
      continue;
    }
    if (present && !killed.has(processOf(present))) found.push(`${who} enters ${name} beside ${present.who}`);
    inside.set(name, entry);
    const counter = `${sideOf(entry)} ${name}`;
    if (token <= (tokens.get(counter) ?? 0)) found.push(`${who} enters ${name} with the old token ${token}`);
    tokens.set(counter, token);
  }
  return found;
}
