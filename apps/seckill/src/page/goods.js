import { oversoldOf, waitingFor } from './figures.js';
import { chip, nameOf } from './instances.js';

const TEMPLATE = `
  <header><h2></h2><span class="badge" hidden></span><span class="stock"></span></header>
  <div class="bar"><i></i></div>
  <dl><dt>sold</dt><dd class="sold"></dd><dt>holds</dt><dd class="holder"></dd><dt>wait</dt><dd class="waiters"></dd></dl>`;

const cards = new Map();

export function showGoods({ goods }) {
  for (const item of goods) show(cardOf(item), item);
}

function cardOf({ id, name }) {
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
  const { stock, offered, lock } = item;
  const mistake = mistakeOf(item);
  const badge = card.querySelector('.badge');
  card.classList.toggle('bad', mistake !== undefined);
  badge.hidden = mistake === undefined;
  badge.textContent = mistake;
  card.querySelector('.stock').textContent = `${stock} of ${offered} left`;
  card.querySelector('.sold').textContent = item.orders;
  card.querySelector('.bar i').style.width = `${(Math.max(0, stock) / Math.max(1, offered)) * 100}%`;
  card.querySelector('.holder').replaceChildren(...holderOf(lock));
  card.querySelector('.waiters').replaceChildren(...waitersOf(item));
}

/** What is wrong with the books, if anything is. */
function mistakeOf(item) {
  const oversold = oversoldOf(item);
  if (oversold > 0) return `${oversold} oversold`;
  const lost = item.orders + item.stock - item.offered;
  return lost > 0 ? `${lost} sold twice` : undefined;
}

function holderOf(lock) {
  if (!lock) return [soft('the store of the locks does not answer')];
  if (!lock.isHeld) return [soft('nobody')];
  const token = soft(`token ${shortToken(lock.fencingToken)}`);
  token.title = `fencing token ${lock.fencingToken}`;
  return [chip(lock.holder), token];
}

/** Instances in the order of their line; those that do not stand in it share the lock of their instance. */
function waitersOf({ lock, ...item }) {
  if (waitingFor({ lock }) === 0) return [soft('nobody')];
  const ids = Object.keys(lock.waiting).map(Number);
  const place = (id) => (lock.line.includes(id) ? lock.line.indexOf(id) : Infinity);
  return ids
    .sort((a, b) => place(a) - place(b) || a - b)
    .map((id) => {
      const waiting = chip(id, `${lock.waiting[id]}`);
      waiting.title = `${lock.waiting[id]} buyers of ${item.name} wait on ${nameOf(id)}`;
      return waiting;
    });
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
