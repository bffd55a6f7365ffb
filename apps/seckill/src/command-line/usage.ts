import { isChoice, isCount, type Command, type Option } from './command.js';
import { oneOf } from './one-of.js';

/** The text of `--help`. */
export function usage({ name, does, options, notes }: Command): string {
  const rows = [
    ...Object.entries(options).map(([option, spec]) => [`--${option}${placeholder(spec)}`, describe(spec)]),
    ['--help', 'print this'],
  ] as [string, string][];
  const width = Math.max(...rows.map(([option]) => option.length));
  const lines = rows.map(([option, says]) => `  ${option.padEnd(width)}  ${says}`);
  const after = notes.length > 0 ? ['', ...notes] : [];
  return [`${name} -- [options]`, '', does, '', ...lines, ...after].join('\n');
}

function placeholder(option: Option): string {
  if (isChoice(option)) return ' <name>';
  return isCount(option) ? ' <n>' : '';
}

function describe(option: Option): string {
  if (isChoice(option)) return `${option.says}: ${oneOf(option.names)} (default ${option.byDefault})`;
  if (!isCount(option)) return option.says;
  const { says, byDefault, most } = option;
  return `${says} (1 to ${most}, default ${byDefault})`;
}
