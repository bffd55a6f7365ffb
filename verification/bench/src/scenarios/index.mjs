import { crowd } from './crowd.mjs';
import { entities } from './entities.mjs';
import { feedback } from './feedback.mjs';
import { hold } from './hold.mjs';
import { hop } from './hop.mjs';
import { handler, http, methods } from './http.mjs';
import { held, keys, processes, waiters } from './scaling.mjs';
import { hot1, hot4, hot4Work1, hot4Work5, network, serial, spread, spreadNew } from './turns.mjs';

export const SCENARIOS = [
  [serial, network, spread, spreadNew],
  [hot1, hot4, hot4Work1, hot4Work5, hop],
  [entities, feedback],
  [hold, crowd, http, handler, methods],
  [waiters, keys, processes, held],
].flat();
