import type { Browser } from 'playwright-core';

/**
 * The path of a Chromium or Chrome on this machine: CHROMIUM_BIN, or one on the PATH; `undefined` when there is none.
 * With CI=true and as root it installs Debian's, where it is missing.
 */
export function findChromium(): string | undefined;

/** Why there is none, and what to do. */
export const NO_CHROMIUM: string;

/** Headless, with a new and empty profile; ends with this process, however it ends. */
export function openChromium(command: string): Promise<Browser>;

/**
 * What axe-core finds on a page as it is now: a line for each element that someone with a disability could not use.
 * `page` is one of Playwright.
 */
export function axeFindings(page: { evaluate<T>(script: string): Promise<T> }): Promise<string[]>;
