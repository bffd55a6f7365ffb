import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** @type {import('./index.d.mts').axeFindings} */
export async function axeFindings(page) {
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(readFileSync(AXE, 'utf8'));
  /** @type {import('axe-core').AxeResults} */
  const { violations } = await page.evaluate('axe.run()');
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map((node) => `${id}: ${help}: ${node.target.join(' ')}`),
  );
}
