import {
  Inject,
  Injectable,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { DiscoveryService, ModuleRef } from '@nestjs/core';
import { loadedCopies, findLockService, getLockServiceToken } from '../distributed-lock.tokens.js';
import { ServiceInternals } from '../lock/events/service-internals.js';
import type { LockService } from '../lock/lock.service.js';
import { findProvider } from '../nest/metadata.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { nearestName } from '../port/option-checks.js';
import { Candidate, type TermHandlers } from './candidate.js';
import { type LeaderOptions, LEADERS } from './leader.js';
import { findHandlers, findOnlyLeader, findUnlistedClasses } from './on-elected.decorator.js';

/**
 * The leaders of one application. Its candidates stand for election after all other hooks of the boot have run, and step down before
 * all other hooks of the shutdown.
 */
@Injectable()
export class Leaders implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy {
  /** Always `LEADERS`, which proves that this is a real object. A mock may return something else for any property. */
  readonly brand: symbol = LEADERS;
  private readonly entries = new Map<string, Entry>();

  constructor(
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
  ) {}

  /** Returns the candidate of this name. Several modules may register one name, if their options are the same. */
  add(name: string, { service, keyPrefix = 'leader:' }: LeaderOptions): Candidate {
    const key = keyPrefix + name;
    const entry = this.entries.get(name);
    if (entry && (entry.candidate.key !== key || entry.service !== service)) {
      throw new LockConfigurationError(
        `LeaderModule.forFeature('${name}') was called twice, with different options. Give both the same, or each a name of its own.`,
      );
    }
    if (entry) return entry.candidate;
    if (this.isBooted(service)) {
      throw new LockConfigurationError(
        `LeaderModule.forFeature('${name}') is loaded by LazyModuleLoader, and Nest calls no hooks of such a module, so this instance would never stand for election. Import it in a module that is there at the boot.`,
      );
    }
    const candidate = new Candidate(name, key);
    this.entries.set(name, { candidate, service, handlers: { elected: [], demoted: [] } });
    return candidate;
  }

  /**
   * Returns the candidate of this name, or the only one if no name is given.
   *
   * @param where which decorator asks, for the beginning of the message
   * @throws LockConfigurationError for an unknown name, and without a name if there are several leaders
   */
  of(name: string | undefined, where: string): Candidate {
    return this.entryOf(name, where).candidate;
  }

  /**
   * Finds the decorated methods and the lock service of each leader, before any leader stands for election.
   *
   * @throws LockConfigurationError for the first decorator or registration that cannot work
   */
  onModuleInit(): void {
    this.refuseOtherLeaders();
    for (const { name, where } of findOnlyLeader(this.discovery)) this.entryOf(name, where);
    for (const { name, where, decorator, call } of findHandlers(this.discovery)) {
      const { elected, demoted } = this.entryOf(name, where).handlers;
      (decorator === '@OnElected' ? elected : demoted).push(call);
    }
    for (const [name, entry] of this.entries) entry.locks = this.serviceOf(name, entry.service);
  }

  onApplicationBootstrap(): void {
    this.warnOfStrangers();
    for (const { candidate, locks, handlers } of this.entries.values()) {
      if (locks) candidate.stand(locks, handlers);
    }
  }

  /**
   * Whether the application has already booted. If a lazy module adds a leader after the boot, Nest calls no boot hook for that
   * leader, so it would never stand for election.
   */
  private isBooted(service: string | undefined): boolean {
    const locks = findProvider<LockService>(this.moduleRef, getLockServiceToken(service));
    return locks !== undefined && ServiceInternals.areIn(locks) && ServiceInternals.of(locks).hasBooted;
  }

  async onModuleDestroy(): Promise<void> {
    await Promise.all([...this.entries.values()].map(({ candidate }) => candidate.close()));
  }

  /**
   * Refuses a second copy of this package. Each copy would elect leaders of its own, but Nest would inject those of one copy
   * everywhere.
   */
  private refuseOtherLeaders(): void {
    const count = this.discovery.getProviders().filter(({ token }) => token === LEADERS).length;
    if (count < 2) return;
    throw new LockConfigurationError(
      `LeaderModule.forFeature is called in several copies of this package, each of which would elect leaders of its own. ${loadedCopies.warning() ?? 'Import it from one.'}`,
    );
  }

  private entryOf(name: string | undefined, where: string): Entry {
    const names = [...this.entries.keys()];
    const [only] = names;
    const entry = this.entries.get(name ?? (names.length === 1 ? (only as string) : ''));
    if (entry) return entry;
    const known = names.map((it) => `'${it}'`).join(', ');
    if (name === undefined) {
      throw new LockConfigurationError(`${where}: name the leader, as there are several: ${known}.`);
    }
    const nearest = nearestName(name, names);
    const hint = nearest === undefined ? `there are: ${known}.` : `did you mean '${nearest}'?`;
    throw new LockConfigurationError(
      `${where}: no LeaderModule.forFeature has the name '${name}'; ${hint} Import LeaderModule.forFeature('${name}'), or correct the name.`,
    );
  }

  private serviceOf(name: string, service: string | undefined): LockService {
    const where = `LeaderModule.forFeature('${name}')`;
    const locks = findLockService(this.moduleRef, service, { where, option: 'service' });
    const { leaseMs, mode, permits } = locks.options.defaults;
    const wrong =
      (leaseMs !== undefined && 'leaseMs') ||
      (mode === 'shared' && 'mode') ||
      (permits !== undefined && 'permits');
    if (!wrong) return locks;
    throw new LockConfigurationError(
      `${where}: a leader holds its lock alone and renews it, but the defaults of the registration "${locks.name}" have ${wrong}. Use a registration without it: LeaderModule.forFeature('${name}', { service: 'leaders' }).`,
    );
  }

  private warnOfStrangers(): void {
    for (const { cls, marks } of findUnlistedClasses(this.discovery)) {
      const mark = marks.find(({ name }) => name !== undefined && this.entries.has(name));
      if (!mark) continue;
      const locks = this.entries.get(mark.name as string)?.locks;
      if (locks)
        ServiceInternals.of(locks).events.warn(
          `${mark.decorator}('${mark.name}') in ${cls.name}: the class is no provider of this application, so nothing calls the method. Add it to the providers of a module.`,
        );
    }
  }
}

/** The parts that `LeaderModule.forFeature` has registered under one name. */
interface Entry {
  readonly candidate: Candidate;
  readonly service: string | undefined;
  readonly handlers: TermHandlers;
  locks?: LockService;
}
