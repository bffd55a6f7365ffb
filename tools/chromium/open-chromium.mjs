import { chromium } from 'playwright-core';

/** Under a second, unless the machine has much else to do. */
const PATIENCE_MS = 120_000;

/** @type {import('./index.d.mts').openChromium} */
export function openChromium(command) {
  return chromium.launch({
    executablePath: command,
    timeout: PATIENCE_MS,
    // As root in a container it does not start in its sandbox, and has little shared memory.
    chromiumSandbox: false,
    args: ['--disable-dev-shm-usage'],
  });
}
