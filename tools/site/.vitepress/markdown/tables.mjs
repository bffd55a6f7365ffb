/** The first cell of a row that ends in one link leads there, too. @param {import('markdown-it').default} md */
function linkFirstCells(md) {
  md.core.ruler.after('inline', 'link-first-cells', ({ tokens, Token }) => {
    let cells = [];
    for (const [index, token] of tokens.entries()) {
      if (token.type === 'tr_open') cells = [];
      if (token.type === 'inline' && tokens[index - 1]?.type === 'td_open') cells.push(token.children ?? []);
      if (token.type === 'tr_close') linkFirst(cells, Token);
    }
  });
}

function linkFirst(cells, Token) {
  const [first, last] = [cells.at(0), cells.at(-1)];
  const isLink =
    last?.at(0)?.type === 'link_open' && last.findIndex((it) => it.type === 'link_close') === last.length - 1;
  if (cells.length < 2 || !isLink || first.length === 0 || first.some((it) => it.type === 'link_open'))
    return;
  const open = new Token('link_open', 'a', 1);
  open.attrs = last[0].attrs.map((it) => [...it]);
  first.unshift(open);
  first.push(new Token('link_close', 'a', -1));
}

/** A wide table scrolls in itself, and by keyboard. @param {import('markdown-it').default} md */
export function tables(md) {
  linkFirstCells(md);
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
