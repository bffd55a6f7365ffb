import { Injectable, Module } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { CurrentTerm, LeaderModule, OnElected, OnlyLeader, type Term } from 'nestjs-distributed-lock/leader';

export abstract class Feed {
  abstract importNext(signal: AbortSignal): Promise<void>;
  abstract sweep(fencingToken: number | undefined): Promise<void>;
}

@Injectable()
export class Importer {
  constructor(private readonly feed: Feed) {}

  /** Works for as long as this instance leads. */
  @OnElected('import')
  async lead(term: Term): Promise<void> {
    while (!term.signal.aborted) await this.feed.importNext(term.signal);
  }

  /** The timer fires on all instances, and the method runs on the one that leads. */
  @Interval(60_000)
  @OnlyLeader('import')
  async sweep(@CurrentTerm() term?: Term): Promise<void> {
    await this.feed.sweep(term?.fencingToken);
  }
}

@Module({ imports: [LeaderModule.forFeature('import')], providers: [Importer], exports: [Importer] })
export class ImportModule {}
