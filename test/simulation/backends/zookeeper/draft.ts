import { CODE } from '../../../../libs/distributed-lock/src/zookeeper/client/protocol.js';
import type { Operation } from './requests.js';
import { nameOf, parentOf, type Tree, type Znode } from './tree.js';

/** An operation cannot be executed. */
export class Refusal extends Error {
  constructor(readonly code: number) {
    super(`code ${code}`);
  }
}

const EPHEMERAL_PARENT = -108;
const ANY_VERSION = -1;

/** What one operation has done: the path of what was created, the znode whose data was set. */
export interface Result {
  readonly path?: string;
  readonly node?: Znode;
}

/** A transaction that is being made. Its operations see what the earlier ones have changed. */
export class Draft {
  readonly changes = new Map<string, Znode | undefined>();

  constructor(
    private readonly tree: Tree,
    private readonly zxid: number,
    private readonly session: bigint,
  ) {}

  /** @throws Refusal */
  execute(operation: Operation): Result {
    switch (operation.op) {
      case 'create':
        return this.create(operation);
      case 'delete':
        return this.delete(operation);
      case 'set data':
        return this.setData(operation);
      case 'check':
        this.nodeWith(operation);
        return {};
    }
  }

  private create(operation: Extract<Operation, { op: 'create' }>): Result {
    const { data, isEphemeral, isSequential } = operation;
    const { zxid } = this;
    const above = parentOf(operation.path);
    const parent = this.nodeAt(above);
    if (parent.owner !== 0n) throw new Refusal(EPHEMERAL_PARENT);
    const number = isSequential ? String(parent.creations).padStart(10, '0') : '';
    const path = operation.path + number;
    if (this.get(path)) throw new Refusal(CODE.nodeExists);
    this.changes.set(above, {
      ...parent,
      creations: parent.creations + 1,
      pzxid: zxid,
      children: new Set([...parent.children, nameOf(path)]),
    });
    const owner = isEphemeral ? this.session : 0n;
    const isNew = {
      czxid: zxid,
      mzxid: zxid,
      pzxid: zxid,
      version: 0,
      creations: 0,
      children: new Set<string>(),
    };
    this.changes.set(path, { ...isNew, data, owner });
    return { path };
  }

  private delete({ path, version }: { readonly path: string; readonly version: number }): Result {
    const node = this.nodeWith({ path, version });
    if (node.children.size > 0) throw new Refusal(CODE.notEmpty);
    const above = parentOf(path);
    const parent = this.nodeAt(above);
    const children = new Set(parent.children);
    children.delete(nameOf(path));
    this.changes.set(above, { ...parent, pzxid: this.zxid, children });
    this.changes.set(path, undefined);
    return {};
  }

  private setData({ path, version, data }: Extract<Operation, { op: 'set data' }>): Result {
    const before = this.nodeWith({ path, version });
    // Versions have 32 bits.
    const node = { ...before, data, mzxid: this.zxid, version: (before.version + 1) | 0 };
    this.changes.set(path, node);
    return { node };
  }

  private nodeWith({ path, version }: { readonly path: string; readonly version: number }): Znode {
    const node = this.nodeAt(path);
    if (version !== ANY_VERSION && version !== node.version) throw new Refusal(CODE.badVersion);
    return node;
  }

  private nodeAt(path: string): Znode {
    const node = this.get(path);
    if (!node) throw new Refusal(CODE.noNode);
    return node;
  }

  private get(path: string): Znode | undefined {
    return this.changes.has(path) ? this.changes.get(path) : this.tree.get(path);
  }
}
