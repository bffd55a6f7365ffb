import { runSpecs } from '../support/together.js';

await runSpecs('libs/distributed-lock/src', (spec) => !spec.startsWith('stores/'));
