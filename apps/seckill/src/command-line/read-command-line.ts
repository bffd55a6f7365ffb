import { parseArgs } from 'node:util';
import { isChoice, isCount, type Command, type OptionTable, type Values } from './command.js';
import { nearest } from './nearest.js';
import { defaultOf, readValue, type Value } from './read-value.js';
import { wrongUsage } from './wrong-usage.js';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * @param args the words after the name of the program
 * @param env where npm puts the options that it took for its own
 * @returns `undefined` when help was asked for
 * @throws Error that names the mistake, the allowed values, and the usage
 */
export function readCommandLine<Options extends OptionTable>(
  command: Command<Options>,
  args: string[],
  env: Environment,
): Values<Options> | undefined {
  const { options } = command;
  const values = Object.fromEntries(
    Object.entries(options).map(([name, it]) => [name, defaultOf(it)]),
  ) as Record<string, Value>;
  const types = Object.entries(options).map(
    ([name, it]) => [name, { type: isCount(it) || isChoice(it) ? 'string' : 'boolean' }] as const,
  );
  const { tokens } = parseArgs({
    // One for npm and one more, as some shells and scripts need it: no option has that name.
    args: args.filter((it) => it !== '--'),
    options: { ...Object.fromEntries(types), help: { type: 'boolean', short: 'h' } },
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  try {
    refuseTakenByNpm(command, env);
    for (const token of tokens) {
      if (token.kind === 'option-terminator') continue;
      if (token.kind === 'positional') throw new Error(notAnOption(token.value, command));
      if (token.name === 'help') return undefined;
      const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined;
      if (!option) throw new Error(unknown(token.rawName, command));
      values[token.name] = readValue(option, token.rawName, token.value);
    }
    return values as Values<Options>;
  } catch (error) {
    throw wrongUsage(command, (error as Error).message);
  }
}

/** `npm run demo --kill`: npm keeps what comes before `--`, and the program would run without it. */
function refuseTakenByNpm({ name, options }: Command, env: Environment): void {
  const taken = Object.keys(options).find((option) => env[`npm_config_${option.replaceAll('-', '_')}`]);
  if (taken === undefined) return;
  throw new Error(`npm took --${taken} for an option of its own. Put "--" before it: ${name} -- --${taken}`);
}

function notAnOption(word: string, command: Command): string {
  const meant = nearest(word, Object.keys(command.options));
  const advice = meant === undefined ? 'Options start with two dashes.' : `Did you mean --${meant}?`;
  return `"${word}" is not an option. ${advice}`;
}

function unknown(option: string, { options }: Command): string {
  const names = Object.keys(options).map((name) => `--${name}`);
  const meant = nearest(option, [...names, '--help']);
  return `There is no option ${option}. ${meant === undefined ? `There are ${names.join(', ')}.` : `Did you mean ${meant}?`}`;
}
