import { describe, expect, it } from '@jest/globals';
import { nextAction } from './lane.js';

type Situation = Parameters<typeof nextAction>[0];
type Action = ReturnType<typeof nextAction>;

const BOTH = [false, true];

/** Every situation that there is. */
const ALL = (['none', 'some', 'all'] as const).flatMap((acquiring) =>
  (['not known', 'absent', 'present'] as const).flatMap((document) =>
    BOTH.flatMap((isFresh) =>
      BOTH.flatMap((mustLeaveNotes) =>
        BOTH.map((changes) => ({ acquiring, document, isFresh, mustLeaveNotes, changes })),
      ),
    ),
  ),
);
type Drawn = (typeof ALL)[number];

/** One line for each case; `*` is any. Exactly one line fits each situation. */
const TABLE = `
  acquiring  document           fresh  notes  changes  action
  some|all   absent             *      *      *        take
  some|all   not known|present  *      yes    *        take
  all        not known|present  no     no     *        take
  none       not known          *      *      *        read
  some       not known          *      no     *        read
  all        not known          yes    no     *        read
  none       absent|present     *      *      yes      swap
  some       present            *      no     yes      swap
  all        present            yes    no     yes      swap
  none       absent|present     yes    *      no       answer
  some       present            yes    no     no       answer
  all        present            yes    no     no       answer
  none       absent|present     no     *      no       read
  some       present            no     no     no       read
`;

const LINES = TABLE.trim()
  .split('\n')
  .slice(1)
  .map((line) => line.trim().split(/ {2,}/));

function fits([acquiring, document, fresh, notes, changes]: readonly string[], it: Drawn): boolean {
  const yes = (is: boolean) => (is ? 'yes' : 'no');
  const pairs: readonly (readonly [string | undefined, string])[] = [
    [acquiring, it.acquiring],
    [document, it.document],
    [fresh, yes(it.isFresh)],
    [notes, yes(it.mustLeaveNotes)],
    [changes, yes(it.changes)],
  ];
  return pairs.every(([wanted = '', is]) => wanted === '*' || wanted.split('|').includes(is));
}

function actionIn({ changes, ...rest }: Drawn): Action {
  const situation: Situation = { ...rest, isChanged: () => changes };
  return nextAction(situation);
}

describe('the next action of a lane', () => {
  it.each(ALL)(
    'of tasks of which $acquiring acquire, document $document, fresh $isFresh, notes $mustLeaveNotes, changes $changes',
    (drawn) => {
      const lines = LINES.filter((line) => fits(line, drawn));
      expect(lines).toHaveLength(1);
      expect(actionIn(drawn)).toBe(lines[0]?.at(-1));
    },
  );

  it('is decided without executing the tasks, where they need not be', () => {
    const isChanged = (): boolean => {
      throw new Error('asked in vain');
    };
    const common = { isFresh: false, mustLeaveNotes: false, isChanged };
    expect(nextAction({ ...common, acquiring: 'all', document: 'present' })).toBe('take');
    expect(nextAction({ ...common, acquiring: 'none', document: 'not known' })).toBe('read');
  });
});
