const POINTS = 60;
const STEP_MS = 250;
const RATE_MS = 1000;

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

export const oversoldOf = ({ orders, offered }) => Math.max(0, orders - offered);

/** Orders that the stock does not know of: another order has overwritten what they had written. */
export const lostOf = ({ orders, stock, offered }) => Math.max(0, orders - (offered - stock));

/** Callers that wait, over all instances. */
export const waitingFor = ({ lock }) => sum(Object.values(lock?.waiting ?? {}));

export function showFigures({ at, goods }, sections) {
  put('orders', sum(goods.map(({ orders }) => orders)));
  put('rate', sections.count(at - RATE_MS, at));
  put('waiting', sum(goods.map(waitingFor)));
  put('overlaps', sections.overlaps);
  put('oversold', sum(goods.map(oversoldOf)));
  showSpark(at, sections);
}

function put(id, value) {
  const element = document.getElementById(id);
  element.textContent = value.toLocaleString('en');
  element.closest('.verdict')?.classList.toggle('bad', value > 0);
}

/** Orders in each quarter of a second of the last 15. */
function showSpark(at, sections) {
  const end = Math.floor(at / STEP_MS) * STEP_MS;
  const counts = Array.from({ length: POINTS }, (_, i) => {
    const to = end - (POINTS - 1 - i) * STEP_MS;
    return sections.count(to - STEP_MS, to);
  });
  const top = Math.max(...counts, 4);
  const points = counts.map((count, i) => `${i} ${20 - (count / top) * 18}`);
  document.querySelector('#spark path').setAttribute('d', `M0 20L${points.join('L')}L60 20Z`);
}
