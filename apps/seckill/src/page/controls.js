const find = (id) => document.getElementById(id);

export function connectControls() {
  find('controls').addEventListener('submit', (event) => {
    event.preventDefault();
    const crowd = {
      buyers: Number(find('buyers').value),
      payMs: Number(find('pay').value),
      locked: find('locked').checked,
    };
    void post('crowd', crowd);
  });
  find('reset').addEventListener('click', () => void reset());
}

async function reset() {
  find('reset').disabled = true;
  await post('crowd/reset', {});
  find('reset').disabled = false;
}

/** How far the buyers are. */
export function showCrowd({ crowd, locked }) {
  const switchOf = find('locked');
  if (!locked) switchOf.checked = false;
  switchOf.disabled = !locked;
  find('start').disabled = crowd?.running ?? false;
  find('progress').value = crowd ? crowd.answered / crowd.buyers : 0;
  find('status').value = crowd ? textOf(crowd) : 'Ready: send in the crowd.';
}

function textOf({ answered, buyers, sold, running, locked }) {
  const how = locked ? 'with locks' : 'WITHOUT locks';
  const count = `${answered} of ${buyers} buyers answered, ${sold} of them bought, ${how}`;
  return running ? count : `Over: ${count}.`;
}

async function post(path, body) {
  try {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) });
    if (!answer.ok) find('status').value = (await answer.json()).message;
  } catch {
    find('status').value = 'The instance does not answer.';
  }
}
