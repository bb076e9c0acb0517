// Requests, the token, and the stream of figures.

import { el } from './dom.js';

const KEY = 'neardup-token';
// Requests that name the collection which they are about.
const OF_COLLECTION = /^\/v1\/(clusters|documents|why|together|apart)\?/;

/** The collections of the token, null for all, the one that the page shows of them, and the field that names that of a document. */
export const own = { collections: null, collection: null, field: null };

/** A problem that the service describes (RFC 9457). */
export class Problem extends Error {
  constructor(values) {
    super(values.title);
    this.status = values.status;
    this.title = sentence(values.title);
    this.detail = sentence(values.detail);
    this.reason = values.reason;
  }
}

const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}.`.replace(/\.\.$/, '.') : text);

const field = el('input', { id: 'token-value', type: 'password', autocomplete: 'off', spellcheck: 'false', required: true });
const wrongToken = el('p', { class: 'error', id: 'token-error', role: 'alert', hidden: true }, 'This token is not the right one.');
const form = el('form', { id: 'token-form' },
  el('h2', { id: 'token-title' }, 'A token, please'),
  el('p', {}, 'This service answers only who knows its token. It stays in this tab and is forgotten when the tab closes.'),
  el('label', { for: 'token-value' }, 'Token'), field, wrongToken,
  el('button', { type: 'submit', class: 'primary' }, 'Open'));
const dialog = el('dialog', { id: 'token', 'aria-labelledby': 'token-title', oncancel: (event) => event.preventDefault() }, form);
document.body.append(dialog);

let asked = null; // the promise of a token that the person is typing

function headers(more = {}) {
  const token = sessionStorage.getItem(KEY);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

/** Ask for the token once, whoever needs it; resolves when there is a new one. */
function newToken(wrong) {
  asked ??= new Promise((resolve) => {
    wrongToken.hidden = !wrong;
    form.onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, field.value.trim());
      field.value = '';
      dialog.close();
      asked = null;
      resolve();
    };
    if (!dialog.open) dialog.showModal();
  });
  return asked;
}

/** A path with the collection that the page shows, unless it names one. */
const collected = (path) => (own.collections && OF_COLLECTION.test(path) && !/[?&]collection=/.test(path)
  ? `${path}&${new URLSearchParams({ collection: own.collection })}` : path);

/** Send a request, to a path below that of the page, which a proxy may have moved; on 401 ask for the token and send it again. Throws a Problem, or a TypeError without a network. */
export async function request(path, options = {}) {
  for (;;) {
    if (asked) await asked;
    const used = sessionStorage.getItem(KEY);
    const response = await fetch(collected(path).slice(1), { ...options, headers: headers(options.headers), cache: 'no-store' });
    if (response.ok || response.status === 304) return response;
    const values = await response.json().catch(() => ({ title: `the service answered ${response.status}`, status: response.status }));
    if (response.status !== 401) throw new Problem(values);
    if (used === sessionStorage.getItem(KEY)) await newToken(Boolean(used));
  }
}

export const get = async (path, signal) => (await request(path, { signal })).json();

/** The same for an answer that may be known: without values if it is still the one with this tag. */
export async function getChanged(path, tag, signal) {
  const response = await request(path, { signal, headers: tag ? { 'If-None-Match': tag } : {} });
  return response.status === 304 ? { values: null, tag } : { values: await response.json(), tag: response.headers.get('ETag') };
}

export const post = async (path, body, signal) =>
  (await request(path, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' }, signal })).json();

/** Wait until the page is visible. */
async function visible() {
  while (document.hidden) await new Promise((resolve) => document.addEventListener('visibilitychange', resolve, { once: true }));
}

/** Load again and again until the view ends, or the token may not; a page that is not visible asks nothing. `failing` takes a problem. */
export async function repeat(load, milliseconds, signal, failing) {
  for (let may = true; may && !signal.aborted;) {
    try {
      await load();
    } catch (error) {
      may = error.status !== 403;
      if (!signal.aborted) failing(error);
    }
    if (may) await new Promise((resolve) => setTimeout(resolve, milliseconds));
    await visible();
  }
}

/**
 * Call `onFigures` with the figures as they come, and `onState` with live, lost or asleep. A page that is not visible
 * reads nothing, nor does a token that may not: a browser opens six connections to one address, and every stream would hold one.
 */
export async function follow(onFigures, onState, may) {
  for (;;) {
    if (!may()) return onState('closed');
    await visible();
    const ending = new AbortController();
    const hide = () => document.hidden && ending.abort();
    document.addEventListener('visibilitychange', hide);
    try {
      await read(onFigures, onState, ending.signal);
    } catch (error) {
      if (error.status === 403) return onState('closed');
    } finally {
      document.removeEventListener('visibilitychange', hide);
    }
    onState(document.hidden ? 'asleep' : 'lost');
    if (!document.hidden) await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

async function read(onFigures, onState, signal) {
  const response = await request('/v1/events?of=figures', { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  onState('live');
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const data = block.split('\n').find((line) => line.startsWith('data: '));
      if (data) onFigures(JSON.parse(data.slice(6)));
    }
  }
}
