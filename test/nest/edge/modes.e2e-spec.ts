import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Injectable, Module, Post, type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { CurrentLock, DistributedLockModule, Locked, type Lock } from 'nestjs-distributed-lock';
import { until } from '#until';

/** Keeps its callers inside until it is told to let them go. */
@Injectable()
class Gate {
  entered = 0;
  most = 0;
  private inside = 0;
  private open: (() => void)[] = [];

  async pass<T>(result: T): Promise<T> {
    this.entered += 1;
    this.inside += 1;
    this.most = Math.max(this.most, this.inside);
    await new Promise<void>((resolve) => this.open.push(resolve));
    this.inside -= 1;
    return result;
  }

  letAllGo(): void {
    for (const resolve of this.open.splice(0)) resolve();
  }
}

@Injectable()
class Reports {
  constructor(private readonly gate: Gate) {}

  @Locked('report:<id>', { permits: 3, weight: 2 })
  heavy(id: string) {
    return this.gate.pass(id);
  }
}

@Controller()
class Documents {
  constructor(
    private readonly gate: Gate,
    private readonly reports: Reports,
  ) {}

  @Post('read')
  @Locked('document', { mode: 'shared' })
  read(@CurrentLock() { mode }: Lock) {
    return this.gate.pass({ mode });
  }

  @Post('write')
  @Locked('document', { mode: 'exclusive' })
  write(@CurrentLock() { mode }: Lock) {
    return this.gate.pass({ mode });
  }

  @Post('export')
  @Locked('export', { permits: 2 })
  export(@CurrentLock() { mode }: Lock) {
    return this.gate.pass({ mode });
  }

  @Post('report')
  report() {
    return this.reports.heavy('r');
  }
}

@Module({
  imports: [DistributedLockModule.forRoot()],
  controllers: [Documents],
  providers: [Gate, Reports],
})
class DocumentsModule {}

describe('@Locked', () => {
  let app: INestApplication;
  let gate: Gate;

  beforeEach(async () => {
    app = await NestFactory.create(DocumentsModule, { logger: false });
    await app.listen(0);
    gate = app.get(Gate);
  });
  afterEach(() => app.close());

  /** Posts to all of these at once, and lets those inside go whenever `room` of them, or the last ones, are. */
  async function together(room: number, ...routes: string[]): Promise<unknown[]> {
    const url = await app.getUrl();
    const asked = Promise.all(routes.map((route) => fetch(`${url}/${route}`, { method: 'POST' })));
    for (let done = 0; done < routes.length;) {
      const expected = Math.min(done + room, routes.length);
      await until(() => gate.entered === expected);
      done = expected;
      gate.letAllGo();
    }
    const answers = await asked;
    expect(gate.most).toBe(room);
    expect(answers.map(({ status }) => status)).toEqual(routes.map(() => 201));
    return Promise.all(answers.map((answer) => answer.text()));
  }

  it('with mode shared lets readers in together, and says so', async () => {
    expect(await together(3, 'read', 'read', 'read')).toEqual(Array(3).fill('{"mode":"shared"}'));
  });

  it('with mode exclusive keeps readers and writers out', async () => {
    expect(await together(1, 'write', 'read', 'write')).toContain('{"mode":"exclusive"}');
  });

  it('with permits lets as many in as there are', async () => {
    expect(await together(2, 'export', 'export', 'export', 'export')).toContain('{"mode":"permits"}');
  });

  it('with a weight counts each call as that many, on methods of providers, too', async () => {
    expect(await together(1, 'report', 'report')).toEqual(['r', 'r']);
  });
});
