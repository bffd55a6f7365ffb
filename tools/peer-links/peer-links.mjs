import { TcpProxy } from '../tcp-proxy/index.mjs';

export class PeerLinks {
  #proxies = [];
  /** Of each pair that is cut: both numbers, the smaller one first. */
  #cut = new Set();
  #isolated = new Set();
  #delays = new Map();
  /** Of each link that is open: the two members, as far as they are known. */
  #members = new WeakMap();

  /** @type {import('./index.d.mts').PeerLinks['before']} */
  async before(port, { to, from, edit }) {
    const proxy = await TcpProxy.before(port, { keepsCommands: false, protocol: 'any' });
    this.#proxies.push(proxy);
    proxy.onLink = (link) => {
      const members = { to, from: typeof from === 'number' ? from : undefined };
      this.#members.set(link, members);
      if (edit) link.requests.edit = edit;
      link.requests.loses = (chunk) => {
        if (members.from === undefined) this.#learn(link, members, from(chunk));
        return this.#isCut(members);
      };
      link.replies.loses = () => this.#isCut(members);
      this.#applyDelay(link);
    };
    return proxy;
  }

  cut(one, other) {
    this.#cut.add(pair(one, other));
  }

  isolate(member) {
    this.#isolated.add(member);
  }

  delay(member, delayMs) {
    this.#delays.set(member, delayMs);
    for (const link of this.#links) this.#applyDelay(link);
  }

  hold(from, to) {
    for (const flow of this.#flowsBetween(from, to)) flow.hold();
  }

  deliver(from, to) {
    for (const flow of this.#flowsBetween(from, to)) flow.pass();
  }

  mute(from, to) {
    for (const flow of this.#flowsBetween(from, to)) flow.drop();
  }

  mend() {
    for (const set of [this.#cut, this.#isolated, this.#delays]) set.clear();
    for (const link of this.#links) {
      if (link.requests.droppedBytes + link.replies.droppedBytes > 0) link.destroy();
      else this.#applyDelay(link);
    }
  }

  async close() {
    await Promise.all(this.#proxies.map((proxy) => proxy.close()));
  }

  get #links() {
    return this.#proxies.flatMap((proxy) => proxy.open);
  }

  #learn(link, members, from) {
    if (from === undefined) return;
    members.from = from;
    this.#applyDelay(link);
  }

  /** Members connect both ways round: to the leader, and to elect one. */
  #flowsBetween(from, to) {
    return this.#links.flatMap((link) => {
      const members = this.#members.get(link);
      if (members.from === from && members.to === to) return [link.requests];
      return members.from === to && members.to === from ? [link.replies] : [];
    });
  }

  #isCut({ from, to }) {
    return this.#isolated.has(from) || this.#isolated.has(to) || this.#cut.has(pair(from, to));
  }

  #applyDelay(link) {
    const { from, to } = this.#members.get(link);
    const delayMs = this.#delays.get(from) ?? this.#delays.get(to) ?? 0;
    for (const flow of [link.requests, link.replies]) flow.pass(delayMs);
  }
}

const pair = (one, other) => `${Math.min(one, other)}-${Math.max(one, other)}`;
