import { Inject, Optional } from '@nestjs/common';
import { describeGiven } from '../options/describe-given.js';
import { refuseStandard } from '../options/standard-decorators.js';
import { LockConfigurationError } from '../port/lock.errors.js';

/** The token of a `Leader`, for `inject` of a factory and for `app.get(…)`. @throws LockConfigurationError for a wrong name */
export function getLeaderToken(name: string): symbol {
  checkLeaderName('getLeaderToken', name);
  // By Symbol.for, so that both builds of this package have the same tokens.
  return Symbol.for(`nestjs-distributed-lock/leader/${name}`);
}

/**
 * Injects the `Leader` of a name. Nest stops the boot if no `LeaderModule.forFeature` has it.
 *
 * @throws LockConfigurationError for a name that is no text, when the class is loaded
 */
export function InjectLeader(name: string): ParameterDecorator & PropertyDecorator {
  checkLeaderName('@InjectLeader', name);
  const inject = Inject(getLeaderToken(name));
  return (target: object, key: string | symbol | undefined, index?: number) => {
    refuseStandard('@InjectLeader', key);
    inject(target, key, index as number);
  };
}

/** The token of all leaders of an application, and the property of objects that have methods only for leaders. */
export const LEADERS = Symbol.for('nestjs-distributed-lock/leaders');

/** Makes Nest set that property on all objects of a class. Optional, because the module may be missing. */
export function injectLeaders(prototype: object): void {
  Inject(LEADERS)(prototype, LEADERS);
  Optional()(prototype, LEADERS);
}

/** @throws LockConfigurationError unless `name` is a text, and not an empty one */
export function checkLeaderName(of: string, name: unknown): void {
  if (typeof name === 'string' && name !== '') return;
  throw new LockConfigurationError(
    `${of} takes the name of a leader, as in ${of}('poller'); it was given ${describeGiven(name)}.`,
  );
}
