import Sequencer from '@jest/test-sequencer';
import { LONGEST } from '../lanes.mjs';

/** Jest knows how long a suite takes from earlier runs only. On a new machine the longest would begin last, alone. */
export default class LongestFirst extends Sequencer {
  sort(tests) {
    const rank = ({ path }) => (LONGEST.some((part) => path.includes(`/test/${part}`)) ? 0 : 1);
    return super.sort(tests).toSorted((one, other) => rank(one) - rank(other));
  }
}
