const BOX = /^\[([ xX])\] /;

/** Draws the boxes of a task list. They are for reading, as on GitHub. @param {import('markdown-it').default} md */
export function tasks(md) {
  md.core.ruler.after('inline', 'tasks', ({ tokens, Token }) => {
    tokens.forEach((inline, index) => {
      const [first] = inline.children ?? [];
      const item = tokens[index - 2];
      const box = item?.type === 'list_item_open' && first?.type === 'text' && BOX.exec(first.content);
      if (!box) return;
      item.attrJoin('class', 'task');
      first.content = first.content.slice(box[0].length);
      const drawn = new Token('html_inline', '', 0);
      const state = box[1] === ' ' ? '' : ' checked';
      drawn.content = `<input type="checkbox" disabled${state} aria-hidden="true"> `;
      inline.children.unshift(drawn);
    });
  });
}
