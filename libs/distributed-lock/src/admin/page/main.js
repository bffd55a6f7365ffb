import { ask, release } from './api.js';
import { byId, setText } from './dom.js';
import { watchEvents } from './events.js';
import { Search } from './find.js';
import { showLocks } from './list.js';
import { confirmRelease, connectQuestion } from './question.js';
import { releasedText } from './words.js';

const EVERY_MS = 2000;
const STEP = 50;

let onRelease;
let wanted = STEP;
/** The outcome of the last release. It stays on the page when the locks are read again. */
let news = '';
/** The search whose locks are shown. Readings of an earlier search are dropped. */
let search;
let isReading = false;

function tell(text, isBad = false) {
  const status = byId('status');
  setText(status, text);
  status.className = isBad ? 'bad' : '';
}

function showSearch() {
  const { locks, isWhole, isCut, note } = search;
  showLocks(locks.slice(0, wanted), onRelease);
  byId('more').hidden = locks.length <= wanted;
  const count = `${locks.length}${isCut ? ' or more' : ''} ${locks.length === 1 ? 'key' : 'keys'}${isWhole ? '.' : ' so far …'}`;
  tell([news, count, note].filter(Boolean).join(' '));
}

/** Looks through the store once, and from then on by one page each time. What is shown is read again. */
async function read(current = search) {
  isReading = true;
  try {
    do {
      const isRead = await current.lookOn();
      const shown = current.locks.slice(0, wanted).map(({ key }) => key);
      await current.readAgain(shown.filter((key) => !isRead.has(key)));
      if (current !== search) return;
      showSearch();
    } while (!current.isWhole && !document.hidden);
  } catch (error) {
    if (current !== search) return;
    // Show the locks that were found before the failure, too.
    showSearch();
    tell(error.message, true);
  } finally {
    if (current === search) isReading = false;
  }
}

function startSearch() {
  search = new Search(byId('prefix').value);
  wanted = STEP;
  return read();
}

async function askAndRelease(lock) {
  if (!(await confirmRelease(lock))) return;
  try {
    // Only from the holders that the question showed: others may hold the lock by now.
    const answer = await release(
      lock.key,
      lock.holders.map(({ owner }) => owner),
    );
    news = releasedText(lock.key, answer);
  } catch (error) {
    news = `${lock.key} was not released: ${error.message}`;
  }
  await search.readAgain([lock.key]).catch(() => undefined);
  showSearch();
}

function readSoon() {
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
  setInterval(readSoon, EVERY_MS);
  watchEvents();
  await startSearch();
}

byId('search').addEventListener('submit', (event) => {
  event.preventDefault();
  news = '';
  void startSearch();
});
byId('more').addEventListener('click', () => {
  wanted += STEP;
  showSearch();
});
connectQuestion();
start().catch((error) => tell(error.message, true));
