import Sequencer from '@jest/test-sequencer';
import { LONGEST } from '../lanes.mjs';

/** Jest knows how long a suite takes from earlier runs only. On a new machine the longest would begin last, alone. */
export default class LongestFirst extends Sequencer {
  sort(tests) {
    const rank = ({ path }) => LONGEST.findIndex((part) => path.includes(`/test/${part}`));
    const place = (test) => (rank(test) < 0 ? LONGEST.length : rank(test));
    return super.sort(tests).toSorted((one, other) => place(one) - place(other));
  }
}
