export { SERVER_NAMES, whyMissing } from './servers.mjs';
