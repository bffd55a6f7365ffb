import { defineConfig } from 'vitepress';
import { addressOf, pageFiles } from '../addresses.mjs';
import { descriptions } from '../descriptions.mjs';
import { REPOSITORY, SITE_URL } from '../places.mjs';
import { mermaid } from './markdown/mermaid.mjs';
import { slug } from './markdown/slug.mjs';
import { sources } from './markdown/sources.mjs';
import { tables } from './markdown/tables.mjs';
import { tasks } from './markdown/tasks.mjs';
import { search } from './search.mjs';
import { linkTo, sidebar } from './sidebar.mjs';

const fileOf = Object.fromEntries(pageFiles().map((file) => [addressOf(file), file]));
const described = descriptions();
/** @param {string} text */
const editLink = (text) => REPOSITORY && { pattern: `${REPOSITORY}/edit/main/:path`, text };

export default defineConfig({
  title: 'nestjs-distributed-lock',
  description: described.get('tools/site/home.md'),
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
    config: (md) => md.use(tables).use(tasks).use(mermaid).use(sources),
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
    socialLinks: REPOSITORY ? [{ icon: 'github', link: REPOSITORY, ariaLabel: 'GitHub' }] : [],
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
        editLink: editLink('Edit this page'),
      },
    },
    zh: {
      label: '中文',
      lang: 'zh-CN',
      themeConfig: {
        sidebar: sidebar('zh'),
        nav: [
          { text: '第一把锁', link: linkTo('docs/zh/first-lock.md') },
          { text: '按任务', link: linkTo('docs/zh/recipes.md') },
          { text: '秒杀', link: linkTo('docs/zh/flash-sale.md') },
          { text: '卡住的锁', link: linkTo('docs/zh/recipes/stuck-lock.md') },
        ],
        outline: { level: [2, 3], label: '本页目录' },
        docFooter: { prev: '上一页', next: '下一页' },
        editLink: editLink('编辑本页'),
        darkModeSwitchLabel: '外观',
        sidebarMenuLabel: '目录',
        returnToTopLabel: '回到顶部',
        langMenuLabel: '语言',
        skipToContentLabel: '跳到正文',
      },
    },
  },
});
