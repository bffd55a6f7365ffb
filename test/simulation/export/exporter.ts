import { openSync, writeSync } from 'node:fs';
import { checkExclusion } from '../checker/exclusion.js';
import { checkTokens } from '../checker/tokens.js';
import { toldWithinMs } from '../history/told.js';
import type { Plan } from '../plan/plan.js';
import type { Outcome } from '../replay.js';
import { damaged } from './damage.js';
import { exported, type ExportedHistory } from './exported.js';

/** Every so many histories are also written as damaged copies. */
const DAMAGED_EVERY = 20;

/** Writes histories to a file, one line of JSON each, with what the checker says of each key. */
export class Exporter {
  private readonly file: number;
  private written = 0;

  constructor(path: string) {
    this.file = openSync(path, 'w');
  }

  add(plan: Plan, outcome: Outcome): void {
    this.write(exported(plan, outcome));
    if (this.written++ % DAMAGED_EVERY > 0) return;
    for (const { damage, key, history } of damaged(outcome.history, plan.seed)) {
      const told = toldWithinMs(plan);
      const violations = [...checkExclusion(history, told), ...checkTokens(history, told)];
      this.write(exported(plan, { history, violations, damaged: { damage, key } }));
    }
  }

  private write(line: ExportedHistory): void {
    writeSync(this.file, `${JSON.stringify(line)}\n`);
  }
}
