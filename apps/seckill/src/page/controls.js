import { verdictOf } from './verdict.js';

const NO_VERDICT = { text: '', isBad: false };

const find = (id) => document.getElementById(id);

/** The failure of the last press of a button, shown until the next press. */
let problem;
/** The action that a button has begun and that the page does not show yet. */
let pending;
/** A view that comes right after an answer may have been looked up before it; the next one was not. */
let staleViews = 0;
let latest;

/** @param onReset called when everything is back on the shelf */
export function connectControls(onReset) {
  find('controls').addEventListener('submit', (event) => {
    event.preventDefault();
    void press('start', () => sendCrowd(onReset));
  });
  find('reset').addEventListener('click', () => void press('reset', () => reset(onReset)));
}

/**
 * A button that does nothing for a while is still there: one that is really disabled would lose the keyboard's focus.
 */
async function press(id, action) {
  if (find(id).getAttribute('aria-disabled') === 'true') return;
  problem = undefined;
  try {
    await action();
    staleViews = 1;
  } catch (error) {
    problem = error.message;
    pending = undefined;
    show();
  }
}

/** A crowd finds full shelves: after a sale that sold out, there would be nothing left to oversell. */
async function sendCrowd(onReset) {
  const crowd = {
    buyers: Number(find('buyers').value),
    payMs: Number(find('pay').value),
    locked: find('locked').checked,
  };
  if (latest?.goods.some(({ orders }) => orders > 0)) await reset(onReset);
  begin('Sending in the crowd …');
  await post('crowd', crowd);
}

async function reset(onReset) {
  begin('Putting everything back on the shelf, under the locks of all items …');
  await post('crowd/reset', {});
  onReset();
}

function begin(text) {
  pending = text;
  staleViews = Infinity;
  show();
}

/** How far the buyers are. */
export function showCrowd(view) {
  latest = view;
  if (pending !== undefined && staleViews-- <= 0) pending = undefined;
  show();
}

function show() {
  if (!latest) return;
  const { crowd, locked } = latest;
  const switchOf = find('locked');
  if (!locked) switchOf.checked = false;
  switchOf.disabled = !locked;
  const running = crowd?.running ?? false;
  find('start').setAttribute('aria-disabled', running || pending !== undefined);
  find('reset').setAttribute('aria-disabled', pending !== undefined);
  find('progress').value = crowd ? crowd.answered / crowd.buyers : 0;
  // A screen reader is told of the end, not of each buyer.
  find('status').ariaLive = running ? 'off' : 'polite';
  put(find('status'), problem ?? pending ?? (crowd ? textOf(crowd) : 'Ready: send in the crowd.'));
  const { text, isBad } = pending === undefined ? verdictOf(latest) : NO_VERDICT;
  put(find('verdict'), text);
  find('verdict').classList.toggle('bad', isBad);
}

/** The connection to the server is gone. */
export function showSilence() {
  put(
    find('status'),
    'This instance does not answer; trying again. The others have pages, too: see the top.',
  );
}

/** Only what has changed: a status that is written anew is read out anew. */
function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function textOf({ answered, buyers, sold, running, locked }) {
  const how = locked ? 'with locks' : 'WITHOUT locks';
  const count = `${answered} of ${buyers} buyers answered, ${sold} of them bought, ${how}`;
  return running ? count : `Over: ${count}.`;
}

/** @throws Error in words for the user */
async function post(path, body) {
  const headers = { 'content-type': 'application/json' };
  const request = { method: 'POST', headers, body: JSON.stringify(body) };
  const answer = await fetch(path, request).catch(() => {
    throw new Error('This instance does not answer.');
  });
  if (!answer.ok) throw new Error((await answer.json()).message);
}
