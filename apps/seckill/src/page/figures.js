const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

export const oversoldOf = ({ orders, offered }) => Math.max(0, orders - offered);

/** Orders that the stock does not know of: a later order has overwritten what they had written. */
export const lostOf = ({ orders, stock, offered }) => Math.max(0, orders - (offered - stock));

export function showFigures({ goods, crowd }, sections) {
  put('orders', sum(goods.map(({ orders }) => orders)));
  put('overlaps', sections.overlaps);
  put('oversold', sum(goods.map(oversoldOf)));
  const { text, isBad } = verdictOf(crowd, goods);
  const verdict = document.querySelector('#verdict');
  if (verdict.textContent !== text) verdict.textContent = text;
  verdict.classList.toggle('bad', isBad);
}

function put(id, value) {
  const element = document.getElementById(id);
  element.textContent = value.toLocaleString('en');
  element.closest('.verdict')?.classList.toggle('bad', value > 0);
}

/** The sale in one sentence, for whoever sees it for the first time. */
function verdictOf(crowd, goods) {
  const oversold = sum(goods.map(oversoldOf));
  const lost = sum(goods.map(lostOf));
  if (oversold > 0 || lost > 0) {
    const harm = oversold > 0 ? `${oversold} sold that were never there` : `${lost} sold twice`;
    const why = 'buyers read the same stock before one of them had written it';
    return { text: `${harm}: ${why}. That is what the lock is for.`, isBad: true };
  }
  if (!crowd?.locked) return { text: '', isBad: false };
  const text = crowd.isRunning
    ? 'For each item, one buyer at a time is served; the others wait in the queue.'
    : 'Nothing was oversold: for each item, one buyer at a time read the stock and wrote it.';
  return { text, isBad: false };
}
