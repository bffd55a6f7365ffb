/** One key, as texts. */
export interface EtcdEntry {
  readonly key: string;
  readonly value: string;
  readonly revision: number;
  readonly lease: string;
}

/** Which member has raised it, and why. */
export interface EtcdAlarm {
  readonly memberID: string;
  readonly alarm: string;
}

interface JsonKeyValue {
  readonly key: string;
  readonly value?: string;
  readonly mod_revision: string;
  readonly lease?: string;
}

/** What etcd holds and counts, over its HTTP gateway: another way than that of the store. */
export class EtcdGateway {
  token: string | undefined;

  constructor(private readonly url: string) {}

  async call<Reply>(path: string, body: object = {}): Promise<Reply> {
    const response = await fetch(`${this.url}/v3/${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      ...(this.token !== undefined && { headers: { Authorization: this.token } }),
    });
    const reply = (await response.json()) as Reply & { readonly error?: string };
    if (!response.ok) throw new Error(`${path}: ${reply.error}`);
    return reply;
  }

  /** All keys that begin so, in their order. */
  async list(prefix: string): Promise<readonly EtcdEntry[]> {
    const { kvs = [] } = await this.call<{ kvs?: readonly JsonKeyValue[] }>('kv/range', rangeOf(prefix));
    return kvs.map(({ key, value = '', mod_revision: revision, lease = '0' }) => ({
      key: textOf(key),
      value: textOf(value),
      revision: Number(revision),
      lease,
    }));
  }

  async put(key: string, value: string): Promise<void> {
    await this.call('kv/put', { key: bytesOf(key), value: bytesOf(value) });
  }

  /** Deletes all keys that begin so. */
  async remove(prefix: string): Promise<void> {
    await this.call('kv/deleterange', rangeOf(prefix));
  }

  async revision(): Promise<number> {
    const { header } = await this.call<{ header: { revision: string } }>('kv/range', { key: bytesOf('x') });
    return Number(header.revision);
  }

  /** Forgets all revisions up to the newest. */
  async compact(): Promise<void> {
    await this.call('kv/compaction', { revision: await this.revision(), physical: true });
  }

  async revoke(lease: string): Promise<void> {
    await this.call('lease/revoke', { ID: lease });
  }

  async alarms(): Promise<readonly EtcdAlarm[]> {
    const reply = await this.call<{ alarms?: readonly EtcdAlarm[] }>('maintenance/alarm', { action: 'GET' });
    return reply.alarms ?? [];
  }

  async disarm(alarm: EtcdAlarm): Promise<void> {
    await this.call('maintenance/alarm', { action: 'DEACTIVATE', ...alarm });
  }

  /** Adds a user who may read and write all keys that begin so, with a role of the same name. '' are all. */
  async addUser(name: string, password: string, prefixes: readonly string[]): Promise<void> {
    await this.call('auth/role/add', { name });
    for (const prefix of prefixes) {
      const range = prefix === '' ? { key: bytesOf('\0'), range_end: bytesOf('\0') } : rangeOf(prefix);
      await this.call('auth/role/grant', { name, perm: { permType: 'READWRITE', ...range } });
    }
    await this.call('auth/user/add', { name, password });
    await this.call('auth/user/grant', { user: name, role: name });
  }

  /** From now on the server asks everybody for a user. This gateway is root. */
  async enableUsers(password: string): Promise<void> {
    await this.call('auth/user/add', { name: 'root', password });
    await this.call('auth/user/grant', { user: 'root', role: 'root' });
    await this.call('auth/enable');
    const root = await this.call<{ token: string }>('auth/authenticate', { name: 'root', password });
    this.token = root.token;
  }

  /** How many requests of each kind the server was sent by gRPC. */
  async counts(): Promise<Readonly<Record<string, number>>> {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const lines = text.matchAll(/^grpc_server_started_total\{grpc_method="(\w+)",.*\} (\d+)$/gm);
    return Object.fromEntries([...lines].map(([, name, count]) => [name as string, Number(count)]));
  }
}

function rangeOf(prefix: string): object {
  const end = Buffer.from(prefix);
  end[end.length - 1] = (end.at(-1) as number) + 1;
  return { key: bytesOf(prefix), range_end: end.toString('base64') };
}

function bytesOf(text: string): string {
  return Buffer.from(text).toString('base64');
}

function textOf(bytes: string): string {
  return Buffer.from(bytes, 'base64').toString();
}
