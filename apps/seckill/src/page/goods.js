import { lostOf, oversoldOf } from './figures.js';
import { chip, isSilent } from './instances.js';

const TEMPLATE = `
  <header><h2></h2><span class="badge" hidden></span><span class="stock"></span></header>
  <div class="bar"><i></i></div>
  <p class="why" hidden></p>
  <div class="lanes"><canvas role="img"></canvas></div>
  <dl><dt>sold</dt><dd class="sold"></dd><dt>holds</dt><dd class="holder"></dd><dt>wait</dt><dd class="waiters"></dd></dl>`;

const cards = new Map();

export function showGoods({ goods }) {
  for (const item of goods) show(cardOf(item), item);
}

/** The card of an item; it has a canvas for its timeline. */
export function cardOf({ id, name }) {
  let card = cards.get(id);
  if (card) return card;
  card = document.createElement('article');
  card.innerHTML = TEMPLATE;
  card.dataset.goods = id;
  card.querySelector('h2').textContent = name;
  document.querySelector('#goods').append(card);
  cards.set(id, card);
  return card;
}

function show(card, item) {
  const { stock, offered, orders, lock } = item;
  const lost = lostOf(item);
  const badge = card.querySelector('.badge');
  const why = card.querySelector('.why');
  card.classList.toggle('bad', lost > 0);
  badge.hidden = why.hidden = lost === 0;
  badge.textContent = badgeOf(item);
  why.textContent = `${orders} orders took the stock from ${offered} to ${stock} only. Buyers who read it at the same time all
    wrote back the same number, and so ${lost} of their updates are lost.`;
  card.querySelector('.stock').textContent = `${stock} of ${offered} left`;
  card.querySelector('.sold').textContent = orders;
  card.querySelector('.bar i').style.width = `${(Math.max(0, stock) / Math.max(1, offered)) * 100}%`;
  card.querySelector('.holder').replaceChildren(...holderOf(lock));
  card.querySelector('.waiters').replaceChildren(...waitersOf(lock));
}

function badgeOf(item) {
  const oversold = oversoldOf(item);
  return oversold > 0 ? `${oversold} oversold` : `${lostOf(item)} sold twice`;
}

function holderOf(lock) {
  if (!lock) return [soft('the store of the locks does not reply')];
  if (!lock.isHeld) return [soft('nobody')];
  const { holder, leaseLeftMs, fencingToken } = lock;
  const seconds = `${Math.ceil(leaseLeftMs / 1000)} s`;
  const note = isSilent(holder)
    ? soft(`no answer: the next goes on within ${seconds}, when the lease expires`)
    : soft(`lease ${seconds} · token ${shortToken(fencingToken)}`);
  note.title = `fencing token ${fencingToken}; the lease expires within ${seconds} unless the holder renews it`;
  return [chip(holder), note];
}

/** The instances in the queue of the store. Each may have several buyers that wait. */
function waitersOf(lock) {
  return lock?.queue.length > 0 ? lock.queue.map((id) => chip(id)) : [soft('nobody')];
}

/** Tokens are long, and only their ends differ. */
function shortToken(token) {
  const text = String(token);
  return text.length > 7 ? `…${text.slice(-6)}` : text;
}

function soft(text) {
  const element = document.createElement('span');
  element.className = 'soft';
  element.textContent = text;
  return element;
}
