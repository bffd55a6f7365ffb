import { specsBelow } from '../support/specs-below.js';

await specsBelow('libs/distributed-lock/src', (spec) => !spec.startsWith('stores/'));
