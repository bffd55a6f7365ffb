import { useData, withBase } from 'vitepress';
import DefaultTheme from 'vitepress/theme';
import { h } from 'vue';
import './style.css';

const Layout = () => h(DefaultTheme.Layout, null, { 'doc-footer-before': () => h(PlainText) });

/** @type {import('vitepress').Theme} */
export default { extends: DefaultTheme, Layout };

/** Each page is there as plain text, too, for readers that are programs. */
function PlainText() {
  const { page, lang } = useData();
  const text = lang.value === 'zh-CN' ? '本页的 Markdown 文本' : 'This page as Markdown';
  return h(
    'a',
    { class: 'plain-text', href: withBase(`/${page.value.relativePath}`), target: '_self' },
    text,
  );
}
