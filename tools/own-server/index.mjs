export { firstData } from './first-data.mjs';
export { freePort } from './free-port.mjs';
export { isListening } from './is-listening.mjs';
export { ownServerOn } from './own-server-on.mjs';
export { runUntilReady } from './run-until-ready.mjs';
export { startOwnServer } from './start-own-server.mjs';
export { unprivileged } from './unprivileged.mjs';
