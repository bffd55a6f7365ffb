// Makes docs/images/flash-sale.png: the page in the middle of a sale over four processes.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { findChromium, NO_CHROMIUM, openChromium } from '#chromium';
import { launch } from '../dist/apps/seckill/launch.js';

const FILE = fileURLToPath(new URL('../docs/images/flash-sale.png', import.meta.url));
const [file = FILE, ...flags] = process.argv.slice(2);
const has = (flag) => flags.includes(flag);

const command = findChromium();
if (!command) throw new Error(NO_CHROMIUM);
const shop = await launch(4, { ...process.env, PORT: '0' });
const browser = await openChromium(command);
try {
  const page = await browser.newPage({
    viewport: has('--phone') ? { width: 390, height: 844 } : { width: 1280, height: 800 },
    colorScheme: has('--dark') ? 'dark' : 'light',
  });
  page.on('console', (message) => console.log(message.text()));
  page.on('pageerror', (error) => console.log(error.message));
  await page.goto(shop.instances[0].url);
  if (has('--no-lock')) await page.locator('.switch').click();
  await page.locator('.chip').nth(3).waitFor();
  await page.locator('#start').click();
  const sold = has('--no-lock') ? 200 : 170;
  await page.waitForFunction((count) => Number(document.querySelector('#orders').textContent) >= count, sold);
  writeFileSync(file, await page.screenshot({ fullPage: true }));
} finally {
  await browser.close();
  await shop.close();
}
