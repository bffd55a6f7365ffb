import { MAX_PAUSE_MS } from '../../../libs/distributed-lock/src/leader/candidate.js';
import { longestLeaseMs, longestMs, setBackMs } from '../plan/longest.js';
import type { CandidatePlan, CANDIDATE_ACTS } from '../plan/candidate.js';
import type { Plan } from '../plan/plan.js';
import { Standing } from './standing.js';
import type { Actor, Stage } from './stage.js';

/** A waiter rechecks, and a connection is replaced. */
const REPAIR_MS = 10_000;
const MIN_REIGN_MS = 5000;
const PATIENCE_MS = 60_000;

/** The candidates of a plan. */
export class Elections {
  private readonly standings: Standing[] = [];
  private isOver = false;

  constructor(
    private readonly plan: Plan,
    private readonly stage: Stage,
  ) {}

  /** True time until which candidates stand and lead beside the calls. */
  get lastsUntil(): number {
    const { candidates = [] } = this.plan;
    return Math.max(0, ...candidates.map(({ atMs }) => atMs + MIN_REIGN_MS));
  }

  begin(): void {
    const { candidates = [] } = this.plan;
    const { actors, parts } = this.stage;
    for (const candidate of candidates) {
      const actor = actors[candidate.process] as Actor;
      parts.kernel.at(candidate.atMs, () => this.stand(actor, candidate));
    }
    this.stage.onStartedAgain = (actor, gone) => {
      for (const { plan, actor: before } of this.standings) if (before === gone) this.stand(actor, plan);
    };
    this.stage.onCandidateAct = (act, actor) => this.act(act, actor);
  }

  /** The faults are over: somebody leads. Then all stand down. */
  async end(): Promise<void> {
    const { kernel, history, backend } = this.stage.parts;
    const from = kernel.now;
    const { closedAfterCrashMs = 0 } = backend;
    const { commandTimeoutMs } = this.plan.storeOptions;
    const mostMs =
      longestLeaseMs(this.plan) +
      setBackMs(this.plan) +
      longestMs(this.plan) +
      closedAfterCrashMs +
      4 * commandTimeoutMs +
      MAX_PAUSE_MS * 1.01 +
      REPAIR_MS;
    const candidates = () => this.standings.filter(({ mayLead }) => mayLead);
    const isLed = () => candidates().some((it) => it.candidate.isLeader || it.electedAt >= from);
    await kernel.run(from + mostMs, () => candidates().length === 0 || isLed());
    if (candidates().length > 0 && !isLed())
      history.violate('leader', `nobody leads ${Math.round(mostMs)} ms after the last fault`);
    await this.close();
  }

  private async close(): Promise<void> {
    const { kernel, history } = this.stage.parts;
    // A process that starts again later does not stand.
    this.isOver = true;
    const standing = this.standings.filter(({ isAlive }) => isAlive);
    let left = standing.length;
    for (const each of standing) each.actor.process.receive(() => void each.close().then(() => (left -= 1)));
    await kernel.run(kernel.now + PATIENCE_MS, () => left === 0);
    if (left > 0) history.violate('leader', `${left} candidates are not closed after a minute`);
    // Work goes on for as long as it likes.
    await kernel.run(kernel.now + longestMs(this.plan), () => standing.every(({ isAtRest }) => isAtRest));
  }

  private stand(actor: Actor, plan: CandidatePlan): void {
    if (this.isOver) return;
    const { process } = actor;
    const standing = new Standing(this.stage, actor, plan, `candidate ${this.standings.length + 1}`);
    this.standings.push(standing);
    process.receive(() => standing.stand());
  }

  private act(act: (typeof CANDIDATE_ACTS)[number], actor: Actor): void {
    const own = this.standings.filter((it) => it.actor === actor);
    for (const standing of own) {
      if (act === 'stand' && own.at(-1)?.isClosed) return this.stand(actor, standing.plan);
      actor.process.receive(() => {
        if (!standing.isAlive || act === 'stand') return;
        void (act === 'resign' ? standing.resign() : standing.close());
      });
    }
  }
}
