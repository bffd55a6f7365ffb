import assert from 'node:assert/strict';
import { isExclusive, SHARED, type Claim } from '../../../libs/distributed-lock/src/port/claim.js';
import type {
  AcquireRequest,
  ReleaseRequest,
  Grant,
  LockStore,
  Notification,
  Renewal,
} from '../../../libs/distributed-lock/src/port/lock-store.js';
import { FamilyModel, type Tokens } from './family-model.js';

export type Step =
  | {
      readonly do: 'ask';
      readonly client: number;
      readonly claim: Claim;
      readonly waits: boolean;
      readonly tokens: number;
      readonly leaseMs: number;
    }
  | { readonly do: 'look' | 'renew' | 'renewUnderOldGrant' | 'downgrade'; readonly which: number }
  | { readonly do: 'end'; readonly which: number; readonly used: number | undefined }
  /** A copy of something sent earlier, counted from the last, is executed now. */
  | { readonly do: 'replay'; readonly which: number }
  | { readonly do: 'lapse'; readonly which: number }
  | { readonly do: 'force' }
  | { readonly do: 'loseTokens' };

/** The parts of a store that a property needs besides the port. */
export interface Backend {
  readonly stores: readonly LockStore[];
  readonly pushes: Notification[];
  /** By a network: then clients may be out of reach, and what has lapsed stays until its room is needed. */
  readonly isRemote: boolean;
  /** Lets a lease end: of this holder, or of all that are as short as the shortest. @returns whose have ended */
  lapse(key: string, holders: readonly Holder[], which: Holder): Promise<readonly string[]>;
  /** Whether it did: not every store can lose them. */
  loseTokens(key: string): Promise<boolean>;
  /** Each notification has arrived, or never will. */
  untilPushed(isThere: () => boolean): Promise<void>;
  /** Its own format says the same as the model. */
  check(key: string, holders: readonly Holder[]): Promise<void>;
  /** The keys have no holder and no queue. All that belongs to them has `id` in its name. */
  checkNothingLeft(keys: readonly string[], id: string): Promise<void>;
}

export interface Holder {
  readonly name: string;
  readonly claim: Claim;
  readonly leaseMs: number;
  readonly hasLapsed: boolean;
}

interface Owner {
  readonly name: string;
  readonly store: LockStore;
  readonly ask: Omit<AcquireRequest, 'ticket'>;
  claim: Claim;
  ticket: number;
  hasEnded: boolean;
  /** The last grant that its client was told, by reply or notification, and the one before. */
  grant: Tokens | undefined;
  oldGrant: Tokens | undefined;
}

/** One key, three clients, and the model of what should become of it. */
export class FamilyStage {
  private readonly model: FamilyModel;
  private readonly owners: Owner[] = [];
  private readonly sent: (() => Promise<void>)[] = [];
  /** No later grant may have a token up to this one. */
  private lastToken = 0;
  /** The store has forgotten the tokens of one that holds alone: it believes the next renewal, or makes new ones. */
  private tokensLost = false;

  /** @param firstOwner an owner has one key: two stages number theirs apart */
  constructor(
    private readonly key: string,
    private readonly backend: Backend,
    private readonly firstOwner = 1,
  ) {
    this.model = new FamilyModel(backend.isRemote);
  }

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case 'ask':
        return this.look(this.newOwner(step));
      case 'look':
        return this.withOwner(step.which, (owner) => this.look(owner));
      case 'renew':
        return this.withOwner(step.which, (owner) => this.renew(owner, owner.grant));
      case 'renewUnderOldGrant':
        return this.withOwner(
          step.which,
          (owner) => this.renew(owner, owner.oldGrant),
          ({ oldGrant }) => oldGrant !== undefined,
        );
      case 'downgrade':
        return this.withOwner(
          step.which,
          (owner) => this.downgrade(owner),
          ({ name, claim }) => isExclusive(claim) && this.model.holderOf(name) !== undefined,
        );
      case 'end':
        return this.withOwner(step.which, (owner) => this.end(owner, step.used));
      case 'replay':
        return this.sent[this.sent.length - 1 - (step.which % Math.max(1, this.sent.length))]?.();
      case 'lapse':
        return this.lapse(step.which);
      case 'force':
        return this.send(() => this.force());
      case 'loseTokens':
        this.tokensLost ||= await this.backend.loseTokens(this.key);
        return;
    }
  }

  /** The store must be where the model is. */
  async check(): Promise<void> {
    const { model, key, backend } = this;
    const snapshot = await backend.stores[0]!.inspect(key);
    const inside = model.holders.filter(({ hasLapsed }) => !hasLapsed).map(({ name }) => name);
    assert.deepEqual([...(snapshot?.holders ?? [])].sort(), inside.sort());
    assert.deepEqual(
      snapshot?.pending ?? [],
      model.line.map(({ name }) => name),
    );
    await backend.check(key, this.holders);
  }

  /** Everybody goes home. */
  async finish(): Promise<void> {
    for (const owner of this.owners) await this.end(owner, undefined);
    await this.check();
  }

  private get holders(): Holder[] {
    return this.model.holders.map(({ name, claim, hasLapsed }) => {
      const { leaseMs } = this.ownerOf(name).ask;
      return { name, claim, hasLapsed, leaseMs };
    });
  }

  private newOwner({ client, claim, waits, tokens, leaseMs }: Extract<Step, { do: 'ask' }>): Owner {
    const store = this.backend.stores[client]!;
    const name = `${store.clientId}:${this.firstOwner + this.owners.length}`;
    const waitMs = waits ? Infinity : 0;
    const ask = { key: this.key, owner: name, claim, leaseMs, waitMs, tokens };
    const fresh = {
      name,
      store,
      ask,
      claim,
      ticket: 0,
      hasEnded: false,
      grant: undefined,
      oldGrant: undefined,
    };
    this.owners.push(fresh);
    return fresh;
  }

  /** An owner that has ended says nothing new; what it said before may come again. */
  private async withOwner(
    index: number,
    step: (owner: Owner) => Promise<void>,
    isMeant: (owner: Owner) => boolean = () => true,
  ): Promise<void> {
    const alive = this.owners.filter((owner) => !owner.hasEnded && isMeant(owner));
    const owner = alive[alive.length - 1 - (index % Math.max(1, alive.length))];
    if (owner) await step(owner);
  }

  private ownerOf(name: string): Owner {
    return this.owners.find((owner) => owner.name === name)!;
  }

  private send(command: () => Promise<void>): Promise<void> {
    this.sent.push(command);
    return command();
  }

  private async look(owner: Owner): Promise<void> {
    const ask: AcquireRequest = { ...owner.ask, ticket: owner.ticket };
    // Whoever has stepped down holds, and asks for nothing.
    if (owner.claim === ask.claim) await this.send(() => this.ask(owner, ask));
  }

  private async ask(owner: Owner, ask: AcquireRequest): Promise<void> {
    const { model } = this;
    const reply = await owner.store.acquire(ask);
    const expected = model.ask(owner.name, ask.claim, ask.waitMs > 0, ask.ticket);
    const answer = reply.kind === 'granted' ? reply : undefined;
    if (expected === 'holds already') {
      assert.ok(answer, 'the holder is told of its grant');
      return this.onAgain(owner, answer);
    }
    assert.equal(answer !== undefined, expected.includes(owner.name), `it was answered "${reply.kind}"`);
    if (reply.kind === 'queued') model.setPlace(owner.name, (owner.ticket = reply.ticket));
    const isInLine = model.line.some(({ name }) => name === owner.name);
    assert.equal(reply.kind === 'queued', isInLine);
    await this.onGranted(expected, owner, answer);
  }

  private onAgain(owner: Owner, answer: Tokens): void {
    const mine = this.model.holderOf(owner.name)!;
    if (this.tokensLost && isExclusive(mine.claim)) return this.onGrant(owner, answer, 1);
    assert.deepEqual([answer.token, answer.lastToken], [mine.tokens.token, mine.tokens.lastToken]);
  }

  private async renew(owner: Owner, tokens: Tokens | undefined): Promise<void> {
    if (!tokens) return;
    const { key } = this;
    const { name, claim } = owner;
    const { leaseMs } = owner.ask;
    const { token, lastToken } = tokens;
    const renewal = { key, owner: name, claim, leaseMs, token, lastToken };
    await this.send(() => this.renewAs(owner, renewal));
  }

  private async downgrade(owner: Owner): Promise<void> {
    owner.claim = SHARED;
    await this.renew(owner, owner.grant);
  }

  private async renewAs(owner: Owner, renewal: Renewal): Promise<void> {
    const [reply] = await owner.store.renew([renewal]);
    const mine = this.model.holderOf(owner.name);
    const { token, lastToken } = renewal;
    const isForgotten = this.tokensLost && mine !== undefined && isExclusive(mine.claim);
    const expected = this.model.renew(owner.name, renewal.claim, isForgotten || mine?.tokens.token === token);
    assert.equal(reply?.kind, expected === 'lost' ? 'lost' : 'renewed');
    if (expected === 'lost') return;
    if (isForgotten && mine) {
      mine.tokens = { token, lastToken };
      this.tokensLost = false;
    }
    await this.onGranted(expected);
  }

  private async end(owner: Owner, used: number | undefined): Promise<void> {
    const { key } = this;
    const { name, claim, grant } = owner;
    const { leaseMs } = owner.ask;
    owner.hasEnded = true;
    const end = { key, owner: name, claim, leaseMs };
    const last = grant && used !== undefined ? grant.token + used : Infinity;
    const isUsed = grant && last < grant.lastToken;
    const tokens = isUsed && { used: { token: last, lastToken: grant.lastToken } };
    await this.send(() => this.endAs(owner, { ...end, ...tokens }));
  }

  private async endAs(owner: Owner, end: ReleaseRequest): Promise<void> {
    const reply = await owner.store.release(end);
    const { wasHolder, granted } = this.model.end(owner.name);
    assert.equal(reply, wasHolder ? 'released' : 'not held');
    if (wasHolder && end.used?.lastToken === this.lastToken) this.lastToken = end.used.token;
    await this.onGranted(granted);
  }

  private async force(): Promise<void> {
    const reply = await this.backend.stores[0]!.forceRelease(this.key);
    const { wasHeld, granted } = this.model.force();
    assert.equal(reply, wasHeld ? 'released' : 'not held');
    await this.onGranted(granted);
  }

  private async lapse(index: number): Promise<void> {
    const { model, backend, holders } = this;
    const which = holders[index % Math.max(1, holders.length)];
    if (!which) return;
    for (const name of await backend.lapse(this.key, holders, which)) model.lapse(name);
    if (backend.isRemote) return;
    model.sweep();
    await backend.stores[0]!.inspect(this.key);
    await this.onGranted(model.serve());
  }

  /** In this order: each by a push, except the one that was answered. */
  private async onGranted(names: readonly string[], asker?: Owner, answer?: Grant): Promise<void> {
    for (const name of names) {
      const owner = this.ownerOf(name);
      const grant = owner === asker ? answer : await this.pushedTo(name);
      assert.ok(grant, `a grant is pushed to ${name}`);
      this.onGrant(owner, grant, owner.ask.tokens);
    }
  }

  private async pushedTo(name: string): Promise<Tokens | undefined> {
    const find = () =>
      this.backend.pushes.find(
        (push) => push.kind === 'granted' && push.owner === name && push.token > this.lastToken,
      );
    await this.backend.untilPushed(() => find() !== undefined);
    return find() as Extract<Notification, { kind: 'granted' }> | undefined;
  }

  private onGrant(owner: Owner, { token, lastToken }: Tokens, count: number): void {
    assert.equal(Number.isSafeInteger(token), true);
    assert.ok(token > this.lastToken, `${token} after ${this.lastToken}`);
    assert.equal(lastToken - token, count - 1);
    owner.oldGrant = owner.grant;
    owner.grant = { token, lastToken };
    this.model.holderOf(owner.name)!.tokens = owner.grant;
    this.lastToken = lastToken;
    this.tokensLost = false;
  }
}
