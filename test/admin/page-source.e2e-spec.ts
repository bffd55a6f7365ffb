import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { createHash } from 'node:crypto';
import { ADAPTERS, startAdminApp } from './support/admin-app.js';

const ROOT = new URL('../../', import.meta.url);
const embedding = (await import(new URL('scripts/embed-admin-page.mjs', ROOT).href)) as {
  embedAdminPage(): string;
};

describe('the page for operators', () => {
  it('is embedded as it is written: run npm run admin:page after a change', () => {
    const embedded = readFileSync(new URL('libs/distributed-lock/src/admin/page.generated.ts', ROOT), 'utf8');
    expect(embedded).toBe(embedding.embedAdminPage());
  });

  it.each(ADAPTERS)(
    'is one file that needs nothing from elsewhere and runs no other script, on %s',
    async (adapter) => {
      const { ask } = await startAdminApp({ adapter });
      const answer = await ask('/locks');
      const html = await answer.text();
      expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8');
      expect(answer.headers.get('x-frame-options')).toBe('DENY');
      const policy = answer.headers.get('content-security-policy')!;
      expect(policy).not.toContain('unsafe');
      for (const tag of ['script', 'style']) {
        const [, text = ''] = new RegExp(`<${tag}[^>]*>([^]*?)</${tag}>`).exec(html)!;
        expect(text.length).toBeGreaterThan(1000);
        expect(policy).toContain(`${tag}-src 'sha256-${createHash('sha256').update(text).digest('base64')}'`);
      }
      expect(html).not.toMatch(/https?:|\/\/[a-z]|\son[a-z]+=|javascript:|src=/i);
      expect(html).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function/);
    },
  );

  it.each(['/locks/', '/locks?x=1'])('is the same at %s', async (path) => {
    const { ask } = await startAdminApp();
    expect(await (await ask(path)).text()).toContain('<dialog');
  });
});
