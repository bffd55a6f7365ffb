import { createHash } from 'node:crypto';
import { pageBody, pageHead, pageScript, pageStyle, pageTail } from './page.generated.js';

const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** The page, with its style and its script. Everybody gets the same text, and the script asks the JSON API for the rest. */
export const ADMIN_PAGE = `${pageHead}<style>${pageStyle}</style>${pageBody}<script type="module">${pageScript}</script>${pageTail}`;

/** The browser loads nothing from other servers, and runs no script but the one of the page, even if an attacker injects one. */
export const ADMIN_PAGE_HEADERS = {
  'Content-Security-Policy': [
    "default-src 'none'",
    `script-src ${hashOf(pageScript)}`,
    `style-src ${hashOf(pageStyle)}`,
    'img-src data:',
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'X-Frame-Options': 'DENY',
};
