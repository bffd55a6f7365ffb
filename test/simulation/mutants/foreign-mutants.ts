import { mutantsOf, type Mutant } from './mutant.js';

const LUA = 'redis/scripts/lua.generated.js';

/** Rules of the stores that somebody broke who had read only the library. */
export const FOREIGN_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('redis', LUA, [
    [
      'a waiter is granted tokens without regard to those that it has seen',
      'min_token = math.max(min_token, tonumber(waiter.min_token))',
      '',
    ],
    [
      'of several permits only one comes back',
      'for i = 1, weight do given_back = given_back',
      'for i = 1, 1 do given_back = given_back',
    ],
    [
      'the restart guard waits for as long as the mark says that was lost',
      'open_from = is_lost and now + math.max(longest, length) or',
      'open_from = is_lost and now + length or',
    ],
    [
      'tokens come back although later ones were given',
      'if last ~= options.reserved then return end',
      'if not last then return end',
      'A spec has it: "tokens of an earlier grant of the same owner are not given back by its release".',
    ],
  ]),
  ...mutantsOf('redis', 'connection/server-clock.js', [
    [
      'a grant is dated by a time of the server however long ago it was told',
      '- driftWithin(now - this.sent.now)',
      '',
      'A grant must overtake the reply to its acquire. The spec of the clock has it, and its plan in `found`.',
    ],
  ]),
  ...mutantsOf('quorum', 'quorum/node-owner.js', [
    [
      'a renewal of a node that was not answered counts as executed',
      'validUntil: Math.min(lease.validUntil, validUntil), waiting',
      'validUntil, waiting',
      'The spec of the node lease has it.',
    ],
  ]),
];
