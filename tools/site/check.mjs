// Looks at the built site in a browser: axe on some pages in two looks, all pages on a phone, and the search.
import { axeFindings, findChromium, NO_CHROMIUM, openChromium } from '../chromium/index.mjs';
import { addressOf, pageFiles } from './addresses.mjs';
import { answerFrom, ORIGIN } from './checks/answer.mjs';
import { SITE } from './places.mjs';

/** One page of each layout, in the look in which it has most to show. */
const FOR_AXE = /** @type {const} */ ([
  ['light', ['', 'readme', 'recipes/once', 'troubleshooting', 'api-guard', 'zh/']],
  ['dark', ['', 'document-stores', 'api-guard', 'zh/recipes/once']],
]);
const SEARCHES = [
  ['', 'double submit'],
  ['', 'GraphQL'],
  ['', 'jwt'],
  ['', 'kafka'],
  ['', 'audit'],
  ['zh/', '重复提交'],
];
const DESKTOP = { width: 1280, height: 800 };
/** A page is there in a second, unless the machine has much else to do. */
const PATIENCE_MS = 120_000;
const PHONE = { width: 360, height: 740 };
const LOOKS = { light: DESKTOP, dark: PHONE };

const command = findChromium();
if (!command) throw new Error(NO_CHROMIUM);
const browser = await openChromium(command);
const findings = [];
try {
  for (const [colorScheme, paths] of FOR_AXE) {
    const viewport = LOOKS[colorScheme];
    const page = await openPage(browser, { viewport, colorScheme });
    const look = `${viewport.width} wide, ${colorScheme}`;
    await forEach(page, paths, async (path) => {
      await page.waitForLoadState('networkidle');
      for (const finding of await axeFindings(page)) findings.push(`/${path} (${look}): ${finding}`);
    });
    await page.context().close();
  }
  // Without its scripts a page is as wide, and opens in half the time.
  const phone = await openPage(browser, { viewport: PHONE, javaScriptEnabled: false });
  const all = pageFiles().map((file) => addressOf(file).replace(/(^|\/)index\.md$|\.md$/, '$1'));
  await forEach(phone, all, async (path) => {
    const width = await phone.evaluate('document.documentElement.scrollWidth');
    if (width > PHONE.width)
      findings.push(`/${path} is ${width} wide on a phone that is ${PHONE.width} wide`);
  });
  const desktop = await openPage(browser, { viewport: DESKTOP });
  for (const [path, words] of SEARCHES) {
    await desktop.goto(`${ORIGIN}/${path}`);
    await desktop.locator('.DocSearch-Button').click();
    await desktop.locator('.search-input').fill(words);
    const first = desktop.locator('.VPLocalSearchBox .result').first();
    await first.waitFor().catch(() => findings.push(`/${path}: the search does not find ${words}`));
  }
} finally {
  await browser.close();
}
if (findings.length > 0) throw new Error(`The site has ${findings.length} findings:\n${findings.join('\n')}`);

/** @param {import('playwright-core').Browser} browser @param {import('playwright-core').BrowserContextOptions} options */
async function openPage(browser, options) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(PATIENCE_MS);
  await answerFrom(context, SITE);
  const page = await context.newPage();
  page.on('pageerror', ({ message }) => findings.push(`${page.url()}: ${message}`));
  page.on('console', (message) => {
    if (message.type() === 'error') findings.push(`${page.url()}: ${message.text()}`);
  });
  return page;
}

/** @param {import('playwright-core').Page} page @param {string[]} paths @param {(path: string) => Promise<void>} look */
async function forEach(page, paths, look) {
  for (const path of paths) {
    await page.goto(`${ORIGIN}/${path}`);
    await look(path);
  }
}
