import { addressOf } from './api.js';
import { byId, make, setText } from './dom.js';
import { countContention } from './list.js';
import { eventText } from './words.js';

const MAX_SHOWN = 100;
const AGAIN_MS = 5000;

export function watchEvents() {
  const stream = new EventSource(addressOf('events'));
  stream.addEventListener('open', () => setText(byId('stream'), 'Connected. The newest event is first.'));
  stream.addEventListener('message', ({ data }) => show(JSON.parse(data)));
  stream.addEventListener('error', () => {
    setText(byId('stream'), 'Not connected. Trying again …');
    // If the answer was no event stream, the browser does not connect again by itself.
    if (stream.readyState === EventSource.CLOSED) setTimeout(watchEvents, AGAIN_MS);
  });
}

function show(event) {
  if (event.type === 'contended') countContention(event.key);
  const item = make('li', '');
  const at = event.at === undefined ? '' : new Date(event.at).toLocaleTimeString();
  item.append(make('time', at), ' ', make('b', event.type), ' ');
  if (event.key !== undefined) item.append(make('bdi', event.key), ': ');
  item.append(make('span', eventText(event)));
  const list = byId('events');
  list.prepend(item);
  while (list.children.length > MAX_SHOWN) list.lastElementChild.remove();
}
