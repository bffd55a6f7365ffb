/** A wide table scrolls in itself, and by keyboard. @param {import('markdown-it').default} md */
export function tables(md) {
  const { rules } = md.renderer;
  rules.table_open = () => '<div class="table" tabindex="0"><table>\n';
  rules.table_close = () => '</table></div>\n';

  // A corner without words is no heading of its column.
  const isEmpty = (cell) => cell?.type === 'inline' && cell.content === '';
  rules.th_open = (tokens, index, options, env, self) => {
    if (isEmpty(tokens[index + 1])) tokens[index].tag = 'td';
    return self.renderToken(tokens, index, options);
  };
  rules.th_close = (tokens, index, options, env, self) => {
    if (isEmpty(tokens[index - 1])) tokens[index].tag = 'td';
    return self.renderToken(tokens, index, options);
  };
}
