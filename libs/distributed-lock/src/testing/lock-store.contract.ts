import { CAPABILITIES, type StoreCapability } from '../port/capabilities.js';
import { closing } from './contract/closing.js';
import { detachedLocks } from './contract/detached.js';
import { exclusion } from './contract/exclusion.js';
import { expiry } from './contract/expiry.js';
import { fencing } from './contract/fencing.js';
import { inspection } from './contract/inspection.js';
import { keys } from './contract/keys.js';
import { notifications } from './contract/notifications.js';
import { permitCases } from './contract/permits.js';
import { release } from './contract/release.js';
import { renewal } from './contract/renewal.js';
import { sharing } from './contract/sharing.js';
import { Stage, type ContractGroup, type StoreUnderTest } from './contract/stage.js';
import { takeover } from './contract/takeover.js';
import { waiting } from './contract/waiting.js';

const groups = {
  exclusion,
  'expiry and succession': expiry,
  renewal,
  release,
  fencing,
  waiting,
  notifications,
  'inspection and force': inspection,
  takeover,
  'detached locks': detachedLocks,
  'shared mode': sharing,
  permits: permitCases,
  keys,
  closing,
} satisfies Readonly<Record<string, ContractGroup>>;

type Groups = typeof groups;
/** The name of a case of the contract. */
export type ContractCaseName = { [Group in keyof Groups]: keyof Groups[Group] }[keyof Groups];

/**
 * The promises of the port that a store does not keep, each with the reason. A capability stands for all cases that need it:
 * `{ list: 'the back end cannot search' }`.
 */
export type ContractDeviations = Readonly<Partial<Record<ContractCaseName | StoreCapability, string>>>;

const CASE_TIMEOUT_MS = 60_000;

type Define = (name: string, run: () => void | Promise<void>, timeoutMs?: number) => void;

/** The functions that jest, vitest and mocha have in common. */
interface TestFramework {
  readonly describe: Define;
  readonly it: Define & { readonly skip: Define };
}

/**
 * Checks that a store keeps what the port promises: all cases of the contract. Cases that are declared as deviations are skipped, and
 * the test report shows them with their reasons.
 *
 * Uses the global `describe` and `it` of the test framework. Every case has a key of its own and closes its clients. Nothing is
 * flushed, so that the back end may be shared.
 *
 * @param makeStore called one time for each case; may return the same back end each time
 */
export function describeLockStoreContract(
  name: string,
  makeStore: () => StoreUnderTest | Promise<StoreUnderTest>,
  deviations: ContractDeviations = {},
): void {
  describeCases(`the lock store contract: ${name}`, makeStore, deviations, () => true);
}

/**
 * Describes only some cases of the contract.
 *
 * @param isWanted chooses cases by their names
 */
export function describeCases(
  title: string,
  makeStore: () => StoreUnderTest | Promise<StoreUnderTest>,
  deviations: ContractDeviations,
  isWanted: (claim: string) => boolean,
): void {
  const { describe, it } = globalThis as unknown as TestFramework;
  checkClaims(deviations);
  const reasons = new Map(Object.entries(deviations));
  describe(title, () => {
    for (const [group, cases] of Object.entries<ContractGroup>(groups)) {
      const wanted = Object.entries(cases).filter(([claim]) => isWanted(claim));
      if (wanted.length === 0) continue;
      describe(group, () => {
        for (const [claim, check] of wanted) {
          const run = async () => withStage(await makeStore(), check);
          const reason = reasons.get(claim) ?? (check.needs && reasons.get(check.needs));
          if (reason === undefined) it(claim, run, CASE_TIMEOUT_MS);
          else it.skip(`${claim} (deviation: ${reason})`, run);
        }
      });
    }
  });
}

async function withStage(backEnd: StoreUnderTest, check: (stage: Stage) => Promise<void>): Promise<void> {
  const stage = new Stage(backEnd);
  try {
    await check(stage);
  } finally {
    await stage.close();
  }
}

/** Throws for a deviation that names no case: a misspelt one would look declared while its case still runs. */
export function checkClaims(deviations: ContractDeviations): void {
  const claims = Object.values<ContractGroup>(groups).flatMap((cases) => Object.keys(cases));
  const known = [...Object.keys(CAPABILITIES), ...claims];
  const unknown = Object.keys(deviations).filter((name) => !known.includes(name));
  if (unknown.length === 0) return;
  throw new Error(`No case of the contract is called ${unknown.join(', ')}; there are ${known.join(', ')}.`);
}
