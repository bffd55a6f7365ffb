import { runSuites } from '../support/together.js';

await runSuites('tools');
