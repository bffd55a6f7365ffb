/** The address of the JSON API: below the page, under whatever prefix and behind whatever proxy the page is. */
const API = `${location.pathname.replace(/\/+$/, '')}/api/`;

/** An answer that is no success, with its status. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** @param query an object of names and values, or `URLSearchParams`, where a name may stand several times */
export function addressOf(route, query = {}) {
  if (query instanceof URLSearchParams) return `${API}${route}?${query}`;
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  return `${API}${route}?${new URLSearchParams(given)}`;
}

export async function ask(route, query, init) {
  const response = await fetch(addressOf(route, query), init);
  const body = await response.json().catch(() => undefined);
  if (response.ok) return body;
  const { error, message } = body ?? {};
  throw new Refused(response.status, error?.message ?? message ?? `The server answers ${response.status}.`);
}

/** Servers refuse a body of more than about 100 kB. */
const MAX_OWNERS = 500;

/** Takes the lock from these owners and nobody else. @returns the answer of the server */
export async function release(key, owners) {
  const headers = { 'Content-Type': 'application/json' };
  const answers = [];
  for (let i = 0; i === 0 || i < owners.length; i += MAX_OWNERS) {
    const body = JSON.stringify({ key, owner: owners.slice(i, i + MAX_OWNERS) });
    answers.push((await ask('release', {}, { method: 'POST', headers, body })).answer);
  }
  return answers.includes('released') ? 'released' : answers.at(-1);
}
