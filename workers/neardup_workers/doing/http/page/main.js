// The shell: which view is open, the stream of figures, the marks.

import { follow, get, own } from './api.js';
import { ask } from './ask.js';
import { count, el, percent, score, shownId } from './dom.js';
import { feeds } from './feeds.js';
import { judge } from './judge.js';
import { marks } from './marks.js';
import { now } from './now.js';
import { pair } from './pair.js';
import { oneSource, sources } from './sources.js';
import { stories } from './stories.js';
import { story } from './story.js';

// The first part of the address behind # -> the view. A view gets the element to fill, the rest of the address, and a
// signal that ends it; it may return a function that takes the figures of each moment.
const VIEWS = {
  now: ['Now', now], stories: ['Stories', stories], story: ['Story', story], sources: ['Sources', sources],
  source: ['Source', oneSource], feeds: ['Feeds', feeds], pair: ['Pair', pair], ask: ['Ask', ask],
  judge: ['Judge', judge],
};
// A view of one thing is marked as the view of all.
const OF = { story: 'stories', source: 'sources' };
// Views of all documents: not for a token of some collections, which begins with the stories.
const OF_ALL = ['now', 'sources', 'source', 'feeds'];
const STATES = { live: 'Live', closed: 'No live figures for this token', lost: 'Connecting again', waiting: 'Connecting', asleep: 'Asleep' };

performance.setResourceTimingBufferSize(0); // else the browser keeps an entry for each of 250 requests, unread
const view = document.getElementById('view');
let ending = null;
let onFigures = null;
let latest = null;
let compares = true; // the service has signatures to compare

function open() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [asked, ...rest] = path.split('/');
  const may = (one) => !(own.collections && OF_ALL.includes(one));
  const name = VIEWS[asked] && may(asked) ? asked : may('now') ? 'now' : 'stories';
  const [title, show] = VIEWS[name];
  ending?.abort();
  ending = new AbortController();
  const { signal } = ending;
  const named = (text) => { if (!signal.aborted) document.title = `${text} · neardup`; };
  named(title);
  for (const link of document.querySelectorAll('nav a')) {
    const its = link.getAttribute('href').slice(2);
    link.hidden = !may(its) || (its === 'ask' && !compares);
    if (its === (OF[name] ?? name)) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  view.replaceChildren();
  view.setAttribute('aria-busy', 'true');
  // The view before, whose requests end now, says nothing of this one.
  const ready = () => { if (!signal.aborted) view.setAttribute('aria-busy', 'false'); };
  onFigures = show(view, { rest, query: new URLSearchParams(query), signal, named, ready }) ?? null;
  if (latest) onFigures?.(latest);
}

addEventListener('hashchange', () => {
  open();
  window.scrollTo(0, 0);
  view.focus({ preventScroll: true });
});
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  view.focus();
});

function state(name) {
  const live = document.getElementById('live');
  if (live.dataset.state === name) return;
  live.dataset.state = name;
  document.getElementById('live-text').textContent = STATES[name];
}

async function promise() {
  const { settings, recall, token } = await get('/v1/figures');
  const found = recall?.canaries.recall;
  compares = settings.compares;
  own.field = settings.collection_field;
  own.collections = token?.collections ?? null;
  own.collection = own.collections?.[0] ?? null;
  if (own.collections?.length > 1) choose();
  const text = found
    ? `Finds ${percent(found.value, 1)} of edited copies (${percent(found.low, 1)} to ${percent(found.high, 1)}), measured.`
    : `Promises ${percent(settings.recall)} of the pairs at similarity ${score(settings.threshold)}, more above.`;
  document.getElementById('promise').textContent = text;
}

/** Let the person choose which collection of the token the page shows. */
function choose() {
  document.querySelector('nav').after(el('select', { 'aria-label': 'Collection', onchange: (event) => { own.collection = event.target.value; open(); } },
    own.collections.map((name) => el('option', { value: name }, shownId(name)))));
}

function showMarks() {
  const button = document.getElementById('marks');
  button.hidden = marks.size === 0;
  button.textContent = `Download ${count(marks.size)} mark${marks.size === 1 ? '' : 's'}`;
}

document.getElementById('marks').addEventListener('click', () => marks.download());
marks.onchange = showMarks;
showMarks();
await promise().catch(() => {}); // what the token may see decides what is there to open
open();
follow((figures) => {
  latest = figures;
  onFigures?.(figures);
}, state, () => !own.collections);
