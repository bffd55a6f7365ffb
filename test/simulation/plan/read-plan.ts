import { readFileSync } from 'node:fs';
import { backendOf } from '../backends/backends.js';
import type { Backend } from '../backends/backend.js';
import { InputError } from '../input-error.js';
import { checkPlan } from './check-plan.js';
import { isObject, refuse } from './checks.js';
import type { Plan } from './plan.js';

/** The plan in a file, and the back end that it names. @throws InputError that names the file */
export async function readPlan(file: string): Promise<{ readonly plan: Plan; readonly backend: Backend }> {
  const plan = parse(file);
  try {
    if (!isObject(plan)) return refuse('plan', 'an object', plan);
    const backend = await backendOf(String(plan['store']));
    checkPlan(plan, backend);
    return { plan, backend };
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    throw new InputError(`${file}: ${error.message}. test/simulation/plan/plan.ts says what a plan has.`);
  }
}

function parse(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new InputError(`--plan ${file}: there is no such file.`);
    throw new InputError(`--plan ${file} cannot be read as JSON: ${message}.`);
  }
}
