import { afterEach } from '@jest/globals';
import { Injectable, type ModuleMetadata, type Type } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  DistributedLockModule,
  LockService,
  type LockEvent,
  type DistributedLockModuleOptions,
} from 'nestjs-distributed-lock';
import {
  getLeaderToken,
  LeaderModule,
  OnDemoted,
  OnElected,
  type Leader,
  type Term,
} from 'nestjs-distributed-lock/leader';

/** Remembers the terms of its instance. */
@Injectable()
export class Poller {
  readonly terms: Term[] = [];
  readonly ended: Term[] = [];

  @OnElected('poller')
  elected(term: Term): unknown {
    this.terms.push(term);
    return this.work(term);
  }

  @OnDemoted('poller')
  demoted(term: Term): unknown {
    this.ended.push(term);
    return this.end(term);
  }

  protected work(_term: Term): unknown {
    return undefined;
  }

  protected end(_term: Term): unknown {
    return undefined;
  }
}

/** One instance of an application, as another process would have it. */
export interface Instance {
  readonly app: TestingModule;
  readonly leader: Leader;
  readonly poller: Poller;
  readonly locks: LockService;
  readonly events: readonly LockEvent[];
}

export interface InstanceOptions extends DistributedLockModuleOptions {
  readonly poller?: Type<Poller>;
  readonly imports?: NonNullable<ModuleMetadata['imports']>;
  readonly providers?: NonNullable<ModuleMetadata['providers']>;
  /** Called with the service before the boot. */
  readonly onOpened?: (locks: LockService) => void;
}

const open: TestingModule[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((app) => app.close()));
});

/** Boots an instance. It is closed after the test. */
export async function startInstance({
  poller = Poller,
  imports = [LeaderModule.forFeature('poller')],
  providers = [],
  onOpened,
  ...options
}: InstanceOptions): Promise<Instance> {
  const app = await Test.createTestingModule({
    imports: [DistributedLockModule.forRoot({ logger: false, ...options }), ...imports],
    providers: [{ provide: Poller, useClass: poller }, ...providers],
  }).compile();
  open.push(app);
  const locks = app.get(LockService);
  const events: LockEvent[] = [];
  locks.events$.subscribe((event) => events.push(event));
  onOpened?.(locks);
  await app.init();
  const leader = app.get<Leader>(getLeaderToken('poller'), { strict: false });
  return { app, leader, poller: app.get(Poller), locks, events };
}

/** The types of the events about leaders, with the reasons of demotions. */
export function leaderEventsOf({ events }: Instance): string[] {
  return events.flatMap((event) => {
    if (event.type === 'demoted') return `demoted: ${event.reason}`;
    return event.type === 'candidate' || event.type === 'elected' ? event.type : [];
  });
}
