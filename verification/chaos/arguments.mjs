import { parseArgs } from 'node:util';
import { STORES } from './stores.mjs';

const OPTIONS = {
  store: { type: 'string' },
  kind: { type: 'string', multiple: true },
  seed: { type: 'string' },
  workload: { type: 'string' },
  seconds: { type: 'string' },
  minutes: { type: 'string' },
  all: { type: 'boolean' },
  smoke: { type: 'boolean' },
  faults: { type: 'string' },
  mutants: { type: 'boolean' },
  list: { type: 'boolean' },
  check: { type: 'string', multiple: true },
  markdown: { type: 'boolean' },
  help: { type: 'boolean' },
};

/**
 * Reads the command line. `--help` prints `help` and ends the process.
 *
 * @param {string} help @throws Error for an option that does not exist
 */
export function readArguments(help) {
  const { values } = parseArgs({ args: process.argv.slice(2).filter((it) => it !== '--'), options: OPTIONS });
  if (values.help) {
    console.log(help);
    process.exit();
  }
  const number = (name) => (values[name] === undefined ? undefined : Number(values[name]));
  return {
    ...values,
    store: storeNamed(values.store ?? STORES[0]),
    kinds: values.kind ?? [],
    seed: values.seed ?? '1',
    seconds: number('seconds'),
    minutes: number('minutes'),
    faults: number('faults') ?? 0,
  };
}

/** @throws Error if there is none */
function storeNamed(name) {
  if (STORES.includes(name)) return name;
  throw new Error(`There is no store "${name}". Choose one of ${STORES.join(', ')}.`);
}
