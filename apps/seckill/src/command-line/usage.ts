import { isCount, type Command, type Count, type Flag } from './command.js';

/** The text of `--help`. */
export function usage({ name, does, options, notes }: Command): string {
  const rows = [
    ...Object.entries(options).map(([option, spec]) => [
      `--${option}${isCount(spec) ? ' <n>' : ''}`,
      describe(spec),
    ]),
    ['--help', 'print this'],
  ] as [string, string][];
  const width = Math.max(...rows.map(([option]) => option.length));
  const lines = rows.map(([option, says]) => `  ${option.padEnd(width)}  ${says}`);
  const after = notes.length > 0 ? ['', ...notes] : [];
  return [`${name} -- [options]`, '', does, '', ...lines, ...after].join('\n');
}

function describe(option: Flag | Count): string {
  if (!isCount(option)) return option.says;
  const { says, byDefault, most } = option;
  return `${says} (1 to ${most}, default ${byDefault})`;
}
