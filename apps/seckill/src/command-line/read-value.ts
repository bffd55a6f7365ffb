import { isChoice, isCount, type Choice, type Count, type Option } from './command.js';
import { nearest } from './nearest.js';
import { oneOf } from './one-of.js';

export type Value = number | boolean | string | undefined;

/** The value of an option that the command line does not have. */
export function defaultOf(option: Option): Value {
  if (isChoice(option)) return undefined;
  return isCount(option) ? option.byDefault : false;
}

/**
 * @param name as the user has written it
 * @param text `undefined` when the name has no value
 * @throws Error that names the mistake and the allowed values
 */
export function readValue(option: Option, name: string, text: string | undefined): Value {
  if (isChoice(option)) return choice(option, name, text);
  if (isCount(option)) return count(option, name, text);
  if (text === undefined) return true;
  throw new Error(`${name} takes no value; it was given "${text}".`);
}

function count({ most, because = '' }: Count, name: string, text: string | undefined): number {
  if (text !== undefined && /^[1-9]\d*$/.test(text) && Number(text) <= most) return Number(text);
  throw new Error(`${name} must be a whole number from 1 to ${most}; ${given(text)} ${because}`.trim());
}

function choice({ names }: Choice, name: string, text: string | undefined): string {
  if (text !== undefined && names.includes(text)) return text;
  const meant = nearest(text ?? '', names);
  const advice = meant === undefined ? '' : `Did you mean ${meant}?`;
  throw new Error(`${name} must be ${oneOf(names)}; ${given(text)} ${advice}`.trim());
}

function given(text: string | undefined): string {
  return text === undefined ? 'it has no value.' : `it is "${text}".`;
}
