import { renderMermaidSVG } from 'beautiful-mermaid';

const LOOK = {
  bg: 'var(--vp-c-bg)',
  fg: 'var(--vp-c-text-1)',
  muted: 'var(--vp-c-text-2)',
  accent: 'var(--vp-c-brand-1)',
  transparent: true,
  padding: 8,
};

/** Diagrams are drawn when the site is built, in the colours of the page. @param {import('markdown-it').default} md */
export function mermaid(md) {
  const fence = md.renderer.rules.fence;
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const { info, content } = tokens[index];
    if (info.trim() !== 'mermaid') return fence(tokens, index, ...rest);
    // Vue drops styles inside of a page: style.css has them.
    const svg = renderMermaidSVG(content, LOOK).replace(/<style>[^]*?<\/style>/g, '');
    return `<figure class="diagram" tabindex="0" v-pre>${svg}</figure>\n`;
  };
}
