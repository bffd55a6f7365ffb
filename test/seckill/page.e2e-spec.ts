import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { chromium, type Browser, type Page } from 'playwright-core';
import { findChromium, NO_CHROMIUM, startChromium, type Chromium } from '#chromium';
import { openTestBranches, type TestBranches } from './support/test-branches.js';

const command = findChromium();
/** CI installs a browser: there it is a failure when none is found. */
const describeInBrowser = command === undefined && process.env['CI'] !== 'true' ? describe.skip : describe;
const where = command === undefined ? `, skipped: ${NO_CHROMIUM}` : '';
const PATIENCE_MS = 60_000;

describeInBrowser(`the page in a browser${where}`, () => {
  let branches: TestBranches;
  let running: Chromium;
  let browser: Browser;
  let page: Page;
  const problems: string[] = [];

  beforeAll(async () => {
    if (command === undefined) throw new Error(NO_CHROMIUM);
    branches = await openTestBranches(2, {});
    running = await startChromium(command);
    browser = await chromium.connectOverCDP(running.endpoint, { timeout: 2 * PATIENCE_MS });
    page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    page.setDefaultTimeout(PATIENCE_MS);
    page.on('pageerror', ({ message }) => problems.push(message));
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text());
    });
    await page.goto(branches.instances[0]!.url);
    await page.locator('#instances .chip').nth(1).waitFor();
  }, 4 * PATIENCE_MS);
  afterAll(async () => {
    await browser?.close();
    await running?.stop();
    await branches?.close();
  });

  const sellToCrowd = async () => {
    await page.locator('#start').click();
    await page.getByText('Over: 600 of 600 buyers answered').waitFor();
  };
  const figure = async (id: string) => Number(await page.locator(`#${id}`).textContent());
  const isRed = (selector: string) => page.locator(selector).evaluate((it) => it.closest('.bad') !== null);

  it('shows a crowd that buys all there is, one at a time for each item, and nothing oversold', async () => {
    await sellToCrowd();
    expect(await page.locator('.stock').allTextContents()).toEqual([
      '0 of 100 left',
      '0 of 80 left',
      '0 of 60 left',
    ]);
    expect(await figure('orders')).toBe(240);
    expect(await figure('oversold')).toBe(0);
    expect(await figure('overlaps')).toBe(0);
    expect(await isRed('#oversold')).toBe(false);
    expect(await page.locator('article.bad').count()).toBe(0);
    const colours = await page.locator('canvas').evaluate(coloursIn);
    expect(colours).toBeGreaterThan(2);
  }, 120_000);

  it('marks what is oversold when the lock is switched off, and is clean again after a reset', async () => {
    await page.locator('#reset').click();
    await page.getByText('Ready: send in the crowd.').waitFor();
    await page.locator('.switch').click();
    await sellToCrowd();
    expect(await figure('oversold')).toBeGreaterThan(0);
    expect(await figure('overlaps')).toBeGreaterThan(0);
    expect(await isRed('#oversold')).toBe(true);
    expect(await page.locator('article .badge:visible').first().textContent()).toMatch(/\d+ oversold/);
    await page.locator('#reset').click();
    await page.getByText('Ready: send in the crowd.').waitFor();
    expect([await figure('oversold'), await figure('overlaps'), await figure('orders')]).toEqual([0, 0, 0]);
  }, 120_000);

  it('fits a phone, and needs nothing from elsewhere', async () => {
    await page.setViewportSize({ width: 360, height: 740 });
    const width = await page.evaluate('document.documentElement.scrollWidth');
    expect(width).toBe(360);
    const origins = await page.evaluate(
      "[...new Set(performance.getEntriesByType('resource').map(({ name }) => new URL(name).origin))]",
    );
    expect(origins).toEqual([new URL(page.url()).origin]);
    expect(problems).toEqual([]);
  });

  it('has Swagger UI beside it', async () => {
    await page.goto(`${branches.instances[0]!.url}/docs`);
    const checkout = page.locator('.opblock-summary-path', { hasText: '/checkout' }).first();
    await checkout.waitFor();
    expect(await checkout.isVisible()).toBe(true);
  }, 60_000);
});

/** How many colours a canvas shows. */
function coloursIn(element: unknown): number {
  const canvas = element as {
    width: number;
    height: number;
    getContext(kind: '2d'): { getImageData(...box: number[]): { data: Uint8ClampedArray } };
  };
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
}
