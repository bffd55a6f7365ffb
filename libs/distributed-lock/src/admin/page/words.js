export function duration(ms) {
  const seconds = ms / 1000;
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

/** As in `shop on pod-7, process 4711, GoodsController.purchase, for 41 s`. */
export function holderText({ owner, application, host, process, site, heldMs, renewedAgoMs }) {
  const who = application === undefined ? `owner ${owner}` : `${application} on ${host}, process ${process}`;
  const held = heldMs === undefined ? undefined : `for ${duration(heldMs)}`;
  const renewed = renewedAgoMs === undefined ? undefined : `last renewed ${duration(renewedAgoMs)} ago`;
  const parts = [who, site, held, renewed];
  return parts.filter((it) => it !== undefined).join(', ');
}

/** As in `2 waiting (importer on pod-8, process 12)`. */
function waitingText({ waiting, waiters = [] }) {
  if (!waiting) return undefined;
  const named = waiters.filter(({ application }) => application !== undefined).map(holderText);
  const names = [...new Set(named)].slice(0, 5).join('; ');
  return `${waiting.length} waiting${names && ` (${names})`}`;
}

export function factsOf(lock, contentions) {
  const { mode, remainingMs, fencingToken } = lock;
  return [
    mode ?? 'free',
    waitingText(lock),
    remainingMs === null ? 'the lease has no end' : `lease ends in ${duration(remainingMs)}`,
    fencingToken !== undefined && `token ${fencingToken}`,
    contentions > 0 && `contended ${contentions} times since this page is open`,
  ]
    .filter(Boolean)
    .join(' · ');
}

export function releasedText(key, answer) {
  if (answer === 'released') return `${key} was released.`;
  if (answer === 'not held') return `${key} was not held any more.`;
  return `${key} is held by another one by now: nothing was done.`;
}

const TELL = {
  contended: () => 'others wait for a lock that this process holds',
  takeover: ({ by, graceMs }) => `${by} takes it over: the work under it has ${duration(graceMs)} to end`,
  forced: ({ holder, by }) =>
    by === undefined
      ? `taken by force from ${holder}`
      : `released by force, by ${by}${holder === undefined ? '' : `; held by ${holder}`}`,
  abandoned: ({ message }) => message,
  lost: ({ message }) => message,
  suspended: ({ message, validForMs }) => `not renewed, valid for ${duration(validForMs)}: ${message}`,
  resumed: () => 'renewed again',
  store: ({ isUp, message }) => (isUp ? 'the store can be reached again' : message),
  elected: ({ name }) => `this process leads ${name}`,
  demoted: ({ name, reason }) => `this process leads ${name} no longer: ${reason}`,
  candidate: ({ name }) => `this process stands for election as ${name}`,
  missed: ({ count }) => `${count} more events, which came too fast`,
};

export function eventText(event) {
  return TELL[event.type]?.(event) ?? event.message ?? '';
}
