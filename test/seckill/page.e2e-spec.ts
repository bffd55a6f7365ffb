import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { axeFindings, findChromium, NO_CHROMIUM, openChromium } from '#chromium';
import { buyFrom, openTestShop, type TestShop } from './support/test-shop.js';

const command = findChromium();
/** CI installs a browser: there it is a failure when none is found. */
const describeInBrowser = command === undefined && process.env['CI'] !== 'true' ? describe.skip : describe;
const where = command === undefined ? `, skipped: ${NO_CHROMIUM}` : '';
const PATIENCE_MS = 120_000;

describeInBrowser(`the page in a browser${where}`, () => {
  let shop: TestShop;
  let browser: Browser;
  let page: Page;
  const problems: string[] = [];

  beforeAll(async () => {
    if (command === undefined) throw new Error(NO_CHROMIUM);
    shop = await openTestShop(2);
    browser = await openChromium(command);
    page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    page.setDefaultTimeout(PATIENCE_MS);
    page.on('pageerror', ({ message }) => problems.push(message));
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text());
    });
    await page.goto(shop.urls[0]!);
    await page.locator('#instances .chip').nth(1).waitFor();
  }, 4 * PATIENCE_MS);
  afterAll(async () => {
    await browser?.close();
    await shop?.close();
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
    expect(await page.locator('#verdict').textContent()).toMatch(/^Nothing was oversold/);
  }, 240_000);

  it('draws a timeline for each item, with a lane for each instance', async () => {
    const canvases = page.locator('article canvas');
    expect(await canvases.count()).toBe(3);
    expect(await canvases.first().evaluate(coloursIn)).toBeGreaterThan(2);
    expect(await canvases.first().getAttribute('aria-label')).toMatch(/^Timeline of Phone: \d+ critical/);
  });

  it('names the instances by their numbers, in order', async () => {
    const names = await page.locator('#instances .chip').allTextContents();
    expect(names.map((name) => name.replace('(this page)', ''))).toEqual(['instance 1', 'instance 2']);
  });

  it('oversells a new sale when the lock is switched off after a sale that sold out, and says what happened', async () => {
    await page.locator('.switch').click();
    await sellToCrowd();
    expect(await figure('oversold')).toBeGreaterThan(0);
    expect(await figure('overlaps')).toBeGreaterThan(0);
    expect(await isRed('#oversold')).toBe(true);
    expect(await page.locator('article .badge:visible').first().textContent()).toMatch(/\d+ oversold/);
    expect(await page.locator('#verdict').textContent()).toMatch(
      /^\d+ sold that were never there: buyers read/,
    );
    expect(await page.locator('article .why:visible').first().textContent()).toMatch(
      /\d+ orders took the stock from 100 to \d+ only/,
    );
  }, 240_000);

  it('has no findings of axe, in light on a desktop, in dark on a phone', async () => {
    const findings: string[] = [];
    const looks = [
      [1280, 'light'],
      [360, 'dark'],
    ] as const;
    for (const [width, colorScheme] of looks) {
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme });
      findings.push(...(await axeFindings(page)));
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.emulateMedia({ colorScheme: 'light' });
    expect(findings).toEqual([]);
  }, 240_000);

  it('is clean again after a reset', async () => {
    await page.locator('#reset').click();
    await page.getByText('Ready: send in the crowd.').waitFor();
    await page.locator('.switch').click();
    expect([await figure('oversold'), await figure('overlaps'), await figure('orders')]).toEqual([0, 0, 0]);
  }, 240_000);

  it('leaves the focus of the keyboard on the button that was pressed', async () => {
    const focused = () => page.evaluate('document.activeElement.id');
    await page.locator('#start').focus();
    await page.keyboard.press('Enter');
    await page.getByText(/^[1-9]\d* of 600 buyers answered/).waitFor();
    expect(await focused()).toBe('start');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByText('Ready: send in the crowd.').waitFor();
    expect(await focused()).toBe('reset');
  }, 240_000);

  it('shows the first timeline of a phone without scrolling', async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    const { y, height } = (await page.locator('article canvas').first().boundingBox())!;
    expect(y + height).toBeLessThan(844);
  });

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

  it('names a holder that was killed, and counts its lease down', async () => {
    const [{ id }] = (await shop.database.query<{ id: number }>('SELECT id FROM goods ORDER BY id')) as [
      { id: number },
    ];
    await shop.database.query('UPDATE goods SET fence = 0');
    const victim = shop.instances[1]!;
    void buyFrom(victim, id, 'ann', 10_000).catch(() => {});
    await shop.untilRead(id);
    victim.process.kill('SIGKILL');
    const holder = page.locator('article .holder').first();
    await holder.getByText(/no answer: the next goes on within \d+ s, when the lease expires/).waitFor();
    expect(await holder.locator('.chip').textContent()).toBe(`instance ${victim.id}`);
    expect(await page.locator('#instances .silent').textContent()).toBe(`instance ${victim.id}: no answer`);
  }, 240_000);
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
