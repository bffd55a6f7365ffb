export { axeFindings } from './axe-findings.mjs';
export { findChromium, NO_CHROMIUM } from './find-chromium.mjs';
export { openChromium } from './open-chromium.mjs';
