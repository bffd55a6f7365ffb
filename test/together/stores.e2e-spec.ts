import { runSpecs } from '../support/together.js';

await runSpecs('libs/distributed-lock/src/stores');
await runSpecs('libs/distributed-lock/schematics');
