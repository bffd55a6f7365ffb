const find = (id) => document.getElementById(id);

/** The failure of the last press of a button, shown until the next press. */
let problem;
/** The action that a button has begun and that the page does not show yet. */
let pending;
/** The view right after a response may have been read before it. The one after that was not. */
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

/** A button that does nothing for a while is not really disabled: it would lose the focus of the keyboard. */
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

/** Shows how many buyers have an answer. */
export function showCrowd(view) {
  latest = view;
  if (pending !== undefined && staleViews-- <= 0) pending = undefined;
  show();
}

function show() {
  if (!latest) return;
  const { crowd } = latest;
  const isRunning = crowd?.isRunning ?? false;
  find('start').setAttribute('aria-disabled', isRunning || pending !== undefined);
  find('reset').setAttribute('aria-disabled', pending !== undefined);
  find('progress').value = crowd ? crowd.answered / crowd.buyers : 0;
  // A screen reader announces the end, not each buyer.
  find('status').ariaLive = isRunning ? 'off' : 'polite';
  put(problem ?? pending ?? (crowd ? textOf(crowd) : 'Ready: send in the crowd.'));
}

/** The connection to the server is gone. */
export function showSilence() {
  put('This instance does not answer; trying again. The others have pages, too: see the top.');
}

/** Writes only what has changed: a screen reader announces whatever is written. */
function put(text) {
  if (find('status').textContent !== text) find('status').textContent = text;
}

function textOf({ answered, buyers, sold, isRunning, locked }) {
  const how = locked ? 'with locks' : 'WITHOUT locks';
  const count = `${answered} of ${buyers} buyers answered, ${sold} of them bought, ${how}`;
  return isRunning ? count : `Over: ${count}.`;
}

/** @throws Error in words for the user */
async function post(path, body) {
  const headers = { 'content-type': 'application/json' };
  const request = { method: 'POST', headers, body: JSON.stringify(body) };
  const response = await fetch(path, request).catch(() => {
    throw new Error('This instance does not answer.');
  });
  if (!response.ok) throw new Error((await response.json()).message);
}
