// redlock with a pause of 250 ms between its tries and enough of them for 25 s, as OpenCTI sets it: OpenCTI-Platform/opencti#17341.
import { openRedlock } from './redlock.mjs';

const SETTINGS = { retryDelay: 250, retryCount: 100 };

/** @type {import('../contestants/contestant.d.mts').OpenContestant} */
export const open = (url) => openRedlock(url, SETTINGS);
