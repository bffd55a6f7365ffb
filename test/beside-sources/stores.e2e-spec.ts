import { specsBelow } from '../support/specs-below.js';

await specsBelow('libs/distributed-lock/src/stores');
await specsBelow('libs/distributed-lock/schematics');
await specsBelow('apps');
