import { ask, release } from './api.js';
import { byId, setText } from './dom.js';
import { watchEvents } from './events.js';
import { findLocks } from './find.js';
import { showLocks } from './list.js';
import { confirmRelease, connectQuestion } from './question.js';
import { releasedText } from './words.js';

const EVERY_MS = 2000;
const STEP = 50;

let onRelease;
let wanted = STEP;
/** What was done last; the next reading does not write over it. */
let news = '';
let reading = 0;
let isReading = false;

function tell(text, isBad = false) {
  const status = byId('status');
  setText(status, text);
  status.className = isBad ? 'bad' : '';
}

async function read() {
  // Only the newest reading is shown.
  const turn = ++reading;
  isReading = true;
  try {
    const { locks, isMore, note } = await findLocks(byId('prefix').value, wanted);
    if (turn !== reading) return;
    showLocks(locks, onRelease);
    byId('more').hidden = !isMore;
    const count = `${locks.length}${isMore ? ' or more' : ''} ${locks.length === 1 ? 'key' : 'keys'}.`;
    tell([news, count, note].filter(Boolean).join(' '));
  } catch (error) {
    if (turn === reading) tell(error.message, true);
  } finally {
    if (turn === reading) isReading = false;
  }
}

async function askAndRelease(lock) {
  if (!(await confirmRelease(lock))) return;
  try {
    // The holders of the question: others may hold it by now.
    const answer = await release(
      lock.key,
      lock.holders.map(({ owner }) => owner),
    );
    news = releasedText(lock.key, answer);
  } catch (error) {
    news = `${lock.key} was not released: ${error.message}`;
  }
  await read();
}

function readAgain() {
  // A store that answers late is not asked twice at a time.
  if (byId('live').checked && !document.hidden && !isReading) void read();
}

async function start() {
  const { registration, client, keyPrefix, canRelease } = await ask('about');
  const prefix = keyPrefix ? `, key prefix ${keyPrefix}` : '';
  setText(
    byId('about'),
    `${client.application} on ${client.host}, process ${client.process}, registration ${registration}${prefix}`,
  );
  if (canRelease) onRelease = askAndRelease;
  await read();
  setInterval(readAgain, EVERY_MS);
  watchEvents();
}

byId('search').addEventListener('submit', (event) => {
  event.preventDefault();
  wanted = STEP;
  news = '';
  void read();
});
byId('more').addEventListener('click', () => {
  wanted += STEP;
  void read();
});
connectQuestion();
start().catch((error) => tell(error.message, true));
