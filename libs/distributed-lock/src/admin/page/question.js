import { byId, setText } from './dom.js';
import { holderText } from './words.js';

/** Asks before a release. Escape, and the button that has the focus, keep the lock. @returns whether to release */
export function confirmRelease(lock) {
  const dialog = byId('question');
  setText(byId('question-key'), lock.key);
  setText(byId('question-holders'), `Held by ${lock.holders.map(holderText).join('; ')}.`);
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    // The browser queues `close` events, so one of the question before may arrive while this one is open.
    dialog.onclose = () => {
      if (!dialog.open) resolve(dialog.returnValue === 'release');
    };
  });
}

export function connectQuestion() {
  byId('keep').addEventListener('click', () => byId('question').close('keep'));
  byId('release').addEventListener('click', () => byId('question').close('release'));
}
