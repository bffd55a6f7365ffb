/** A znode as one transaction has left it. */
export interface Znode {
  readonly data: string;
  readonly czxid: number;
  readonly mzxid: number;
  readonly pzxid: number;
  readonly version: number;
  /** How many children were created under it. Sequential children are numbered by it. */
  readonly creations: number;
  /** The session of an ephemeral znode; 0 for others. */
  readonly owner: bigint;
  readonly children: ReadonlySet<string>;
}

/** What one transaction has changed. `undefined` stands for a znode that was deleted. */
export interface Transaction {
  readonly zxid: number;
  /** True time. */
  readonly at: number;
  readonly changes: ReadonlyMap<string, Znode | undefined>;
  /** The session that this transaction ends. */
  readonly ends?: bigint;
}

const ROOT: Znode = {
  data: '',
  czxid: 0,
  mzxid: 0,
  pzxid: 0,
  version: 0,
  creations: 0,
  owner: 0n,
  children: new Set(),
};

/** The znodes as one server has them. */
export class Tree {
  /** The newest transaction that was applied. */
  zxid = 0;
  private readonly nodes = new Map<string, Znode>([['', ROOT]]);

  /** @param path without a slash at its end; '' is the root */
  get(path: string): Znode | undefined {
    return this.nodes.get(path);
  }

  apply({ zxid, changes }: Transaction): void {
    this.zxid = zxid;
    for (const [path, node] of changes) {
      if (node) this.nodes.set(path, node);
      else this.nodes.delete(path);
    }
  }

  copy(): Tree {
    const copy = new Tree();
    copy.apply({ zxid: this.zxid, at: 0, changes: this.nodes });
    return copy;
  }

  /** The ephemeral znodes of a session. */
  ownedBy(session: bigint): readonly string[] {
    return [...this.nodes].filter(([, { owner }]) => owner === session).map(([path]) => path);
  }
}

export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
