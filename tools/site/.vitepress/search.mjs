/**
 * Words, and Chinese text by its words, which no spaces divide. The browser gets the text of this function: nothing
 * outside it exists there.
 *
 * @param {string} text
 */
function tokenize(text) {
  const words = text.split(/[\n\r\p{Z}\p{P}]+/u);
  if (!/\p{Script=Han}/u.test(text)) return words;
  const segments = [...new Intl.Segmenter('zh', { granularity: 'word' }).segment(text)];
  return [...words, ...segments.filter((it) => it.isWordLike).map((it) => it.segment)];
}

/** @type {import('vitepress').DefaultTheme.Config['search']} */
export const search = {
  provider: 'local',
  options: {
    detailedView: false,
    miniSearch: { options: { tokenize } },
    locales: {
      zh: {
        translations: {
          button: { buttonText: '搜索', buttonAriaLabel: '搜索' },
          modal: {
            displayDetails: '显示详情',
            resetButtonTitle: '清空',
            backButtonTitle: '关闭',
            noResultsText: '没有结果：',
            footer: { selectText: '打开', navigateText: '切换', closeText: '关闭' },
          },
        },
      },
    },
  },
};
