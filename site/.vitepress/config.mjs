import { defineConfig } from 'vitepress';
import { addressOf, pageFiles } from '../addresses.mjs';
import { descriptions } from '../descriptions.mjs';
import { REPOSITORY, SITE_URL } from '../places.mjs';
import { mermaid } from './markdown/mermaid.mjs';
import { slug } from './markdown/slug.mjs';
import { tables } from './markdown/tables.mjs';
import { search } from './search.mjs';
import { linkTo, sidebar } from './sidebar.mjs';

const fileOf = Object.fromEntries(pageFiles().map((file) => [addressOf(file), file]));
const described = descriptions();
const EDIT = `${REPOSITORY}/edit/main/:path`;

export default defineConfig({
  title: 'nestjs-distributed-lock',
  description: described.get('site/home.md'),
  base: SITE_URL.pathname,
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `${SITE_URL.pathname}logo.svg` }]],
  srcDir: 'generated',
  outDir: 'dist',
  cacheDir: 'node_modules/.cache/vitepress',
  cleanUrls: true,
  sitemap: { hostname: SITE_URL.href },
  vite: { build: { chunkSizeWarningLimit: 2000 } },
  markdown: {
    anchor: { slugify: slug },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config: (md) => md.use(tables).use(mermaid),
  },
  transformPageData: ({ relativePath }) => {
    const filePath = fileOf[relativePath];
    return { description: described.get(filePath), filePath };
  },
  transformHead: ({ pageData, title, description }) => [
    [
      'link',
      { rel: 'alternate', type: 'text/markdown', href: `${SITE_URL.pathname}${pageData.relativePath}` },
    ],
    ['meta', { property: 'og:title', content: title }],
    ['meta', { property: 'og:description', content: description }],
  ],
  themeConfig: {
    logo: '/logo.svg',
    search,
    // Not every page is there in both languages.
    i18nRouting: false,
    outline: [2, 3],
    socialLinks: [{ icon: 'github', link: REPOSITORY, ariaLabel: 'GitHub' }],
  },
  locales: {
    root: {
      label: 'English',
      lang: 'en',
      themeConfig: {
        sidebar: sidebar('root'),
        nav: [
          { text: 'First lock', link: linkTo('docs/first-lock.md') },
          { text: 'Recipes', link: linkTo('docs/recipes.md') },
          { text: 'Stores', link: linkTo('docs/stores.md') },
          { text: 'Troubleshooting', link: linkTo('docs/troubleshooting.md') },
          { text: 'API', link: linkTo('docs/api.md') },
        ],
        editLink: { pattern: EDIT, text: 'Edit this page' },
      },
    },
    zh: {
      label: '中文',
      lang: 'zh-CN',
      themeConfig: {
        sidebar: sidebar('zh'),
        outline: { level: [2, 3], label: '本页目录' },
        docFooter: { prev: '上一页', next: '下一页' },
        editLink: { pattern: EDIT, text: '编辑本页' },
        darkModeSwitchLabel: '外观',
        sidebarMenuLabel: '目录',
        returnToTopLabel: '回到顶部',
        langMenuLabel: '语言',
        skipToContentLabel: '跳到正文',
      },
    },
  },
});
