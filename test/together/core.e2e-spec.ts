import { runSpecs } from '../support/together.js';
import { isOfStore } from '../support/rooms.js';

await runSpecs('libs/distributed-lock/src', (spec) => !isOfStore(spec));
