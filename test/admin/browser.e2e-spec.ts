import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { axeFindings, findChromium, NO_CHROMIUM, openChromium } from '#chromium';
import { until } from '#until';
import { OPERATOR, startAdminApp, type AdminApp, type AdminAppOptions } from './support/admin-app.js';
import { withoutList, withUnreadable } from './support/odd-lists.js';

const command = findChromium();
/** CI installs a browser: there it is a failure when none is found. */
const describeInBrowser = command === undefined && process.env['CI'] !== 'true' ? describe.skip : describe;
const where = command === undefined ? `, skipped: ${NO_CHROMIUM}` : '';
/** A step of the page gives up before its test does, so that the failure names the step. */
const STEP_PATIENCE_MS = 50_000;
const PATIENCE_MS = 4 * STEP_PATIENCE_MS;
const PHONE = { width: 390, height: 844 };
const ATTACK = '"><img src=x onerror=alert(1)><script>alert(2)</script>';

describeInBrowser(`the page for operators in a browser${where}`, () => {
  let browser: Browser;
  let page: Page;
  let problems: string[];

  beforeAll(async () => {
    if (command === undefined) throw new Error(NO_CHROMIUM);
    browser = await openChromium(command);
  }, PATIENCE_MS);
  afterAll(async () => {
    await browser?.close();
  });
  beforeEach(() => {
    problems = [];
  });
  afterEach(() => page?.context().close());

  async function open(
    options: AdminAppOptions = {},
    viewport = { width: 1280, height: 800 },
  ): Promise<AdminApp> {
    const started = await startAdminApp({ admin: { canRelease: true }, ...options });
    const context = await browser.newContext({ viewport, extraHTTPHeaders: OPERATOR });
    page = await context.newPage();
    page.setDefaultTimeout(STEP_PATIENCE_MS);
    page.on('pageerror', ({ message }) => problems.push(message));
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text());
    });
    page.on('dialog', (dialog) => {
      problems.push(`an alert: ${dialog.message()}`);
      void dialog.dismiss();
    });
    await page.goto(`${started.url}/locks`);
    await page.getByText('Connected.').waitFor();
    return started;
  }
  const focused = () => page.evaluate('document.activeElement.id || document.activeElement.textContent');
  const rows = () => page.locator('#locks > li h3').allTextContents();

  it(
    'lists keys with holders, waiters and age, and finds them by prefix with the keyboard alone',
    async () => {
      const { locks } = await open();
      await using _ = await locks.acquire(['goods:42', 'order:7'], { site: 'nightly import' });
      await page.getByText('order:7').waitFor();
      expect(await page.locator('#locks > li').first().textContent()).toMatch(/goods:42.*process \d+/s);
      await page.keyboard.press('Tab');
      expect(await focused()).toBe('prefix');
      await page.keyboard.type('goods:');
      await page.keyboard.press('Enter');
      await until(async () => (await rows()).join() === 'goods:42');
      await page.getByText('1 key.').waitFor();
      expect(problems).toEqual([]);
    },
    PATIENCE_MS,
  );

  it(
    'releases by force only after a question, which Escape and the focused button answer with no',
    async () => {
      const { locks } = await open();
      const lock = await locks.acquire('goods:42');
      const button = page.getByRole('button', { name: 'Release goods:42 by force' });
      await button.focus();
      for (const keys of [
        ['Enter', 'Escape'],
        ['Enter', 'Enter'],
      ]) {
        await page.keyboard.press(keys[0]!);
        await page.getByRole('dialog', { name: 'Release goods:42 by force?' }).waitFor();
        expect(await focused()).toBe('keep');
        await page.keyboard.press(keys[1]!);
        await page.getByRole('dialog').waitFor({ state: 'hidden' });
        expect(await focused()).toMatch(/^Release/);
      }
      expect(lock.signal.aborted).toBe(false);
      await page.keyboard.press('Enter');
      await page.keyboard.press('Tab');
      expect(await focused()).toBe('release');
      await page.keyboard.press('Enter');
      await page.getByText('goods:42 was released.').waitFor();
      expect(lock.signal.aborted).toBe(true);
      expect(await lock.release()).toBe('lost');
      await until(async () => (await focused()) === 'locks-title');
      expect(problems).toEqual([]);
    },
    PATIENCE_MS,
  );

  it(
    'a question that is asked again before the browser reports the end of the one before gets its own answer',
    async () => {
      const { locks } = await open();
      const lock = await locks.acquire('goods:42');
      const button = page.getByRole('button', { name: 'Release goods:42 by force' });
      await button.waitFor();
      await page.evaluate(
        "for (const press of ['#locks button', '#keep', '#locks button']) document.querySelector(press).click()",
      );
      await page.locator('#release').click();
      await page.getByText('goods:42 was released.').waitFor();
      expect(await lock.release()).toBe('lost');
      expect(problems).toEqual([]);
    },
    PATIENCE_MS,
  );

  it(
    'frees only the holder of its question: another that has the lock by the time of the answer keeps it',
    async () => {
      const { locks } = await open();
      const shown = await locks.acquire('goods:42');
      await page.getByRole('button', { name: 'Release goods:42 by force' }).click();
      await page.getByRole('dialog').waitFor();
      await shown.release();
      const next = await locks.acquire('goods:42');
      await page.locator('#release').click();
      await page.getByText('goods:42 is held by another one by now: nothing was done.').waitFor();
      expect(await next.release()).toBe('released');
      expect(problems).toEqual([]);
    },
    PATIENCE_MS,
  );

  it(
    'keeps the focus where it is while the list is read again',
    async () => {
      const { locks } = await open();
      await using _ = await locks.acquire('b');
      const button = page.getByRole('button', { name: 'Release b by force' });
      await button.focus();
      await using __ = await locks.acquire('a');
      await until(async () => (await rows()).length === 2);
      expect(await page.evaluate("document.activeElement.getAttribute('aria-label')")).toBe(
        'Release b by force',
      );
    },
    PATIENCE_MS,
  );

  it(
    'offers no release where the application does not',
    async () => {
      const { locks } = await open({ admin: {} });
      await using _ = await locks.acquire('goods:42');
      await page.getByText('goods:42').waitFor();
      expect(await page.getByRole('button', { name: /Release/ }).count()).toBe(0);
    },
    PATIENCE_MS,
  );

  it(
    'tells of contention as it happens',
    async () => {
      const { locks } = await open();
      await using _ = await locks.acquire('goods:42');
      await expect(locks.acquire('goods:42', { waitMs: 1 })).rejects.toThrow('Could not acquire');
      await page.locator('#events').getByText('others wait for a lock').waitFor();
      await page.getByText('contended 1 times').waitFor();
      expect(await page.locator('#events li').count()).toBe(2);
    },
    PATIENCE_MS,
  );

  it(
    'shows a key as text, whatever is in it',
    async () => {
      const { locks } = await open();
      await using _ = await locks.acquire([ATTACK, 'turned\u202eround'], { site: ATTACK });
      await using __ = await locks.acquire('x');
      await expect(locks.acquire(ATTACK, { waitMs: 1 })).rejects.toThrow('Could not acquire');
      await page.locator('#locks').getByText(ATTACK).first().waitFor();
      await page.locator('#events').getByText(ATTACK).first().waitFor();
      await page.getByText('turned\\u202eround').waitFor();
      await page.getByRole('button', { name: `Release ${ATTACK} by force` }).click();
      expect(await page.locator('#question-key').textContent()).toBe(ATTACK);
      expect(await page.locator('img, body script:not([type=module])').count()).toBe(0);
      expect(problems).toEqual([]);
    },
    PATIENCE_MS,
  );

  it(
    'says what a store says that cannot list, and shows what this process holds',
    async () => {
      const { locks } = await open({ locks: { store: withoutList() } });
      await using _ = await locks.acquire('goods:42');
      await page.getByText('cannot list its keys').waitFor();
      await until(async () => (await rows()).length > 0);
      expect(await rows()).toEqual(['goods:42']);
    },
    PATIENCE_MS,
  );

  it(
    'shows the other keys beside one that the store cannot read, and says why, as text',
    async () => {
      const store = withUnreadable({ key: ATTACK, message: ATTACK });
      const { locks } = await open({ locks: { store } });
      await using _ = await locks.acquire('goods:42');
      await page.getByText(`Cannot be read: ${ATTACK}. ${ATTACK}`).waitFor();
      await until(async () => (await rows()).length > 0);
      expect(await rows()).toEqual(['goods:42']);
      expect(problems).toEqual([]);
    },
    PATIENCE_MS,
  );

  it(
    'works below a prefix, and with a slash at its end',
    async () => {
      const { locks, url } = await open();
      await using _ = await locks.acquire('goods:42');
      await page.goto(`${url}/locks/`);
      await page.getByText('goods:42').waitFor();
      expect(problems).toEqual([]);
    },
    PATIENCE_MS,
  );

  it(
    'has no findings of axe and fits a phone, in light and in dark, with a long key and the question open',
    async () => {
      const { locks } = await open({}, PHONE);
      await using _ = await locks.acquire(['goods:42', `tenant:${'x'.repeat(300)}`]);
      await expect(locks.acquire('goods:42', { waitMs: 1 })).rejects.toThrow('Could not acquire');
      await page.locator('#events li').first().waitFor();
      const findings: string[] = [];
      const look = async () => {
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme });
          findings.push(...(await axeFindings(page)));
        }
        const width = await page.evaluate('document.documentElement.scrollWidth');
        if (width !== page.viewportSize()!.width) findings.push(`${String(width)} wide`);
      };
      await look();
      await page.getByRole('button', { name: 'Release goods:42 by force' }).click();
      await look();
      await page.setViewportSize({ width: 1280, height: 800 });
      await look();
      expect([...new Set(findings)]).toEqual([]);
      expect(problems).toEqual([]);
    },
    2 * PATIENCE_MS,
  );
});
