import { readConfig } from './config.js';
import { listen } from './serve/listen.js';
import { describePlaces } from './stores/describe-places.js';

const config = readConfig(process.env);
await listen(config, describePlaces(config));
