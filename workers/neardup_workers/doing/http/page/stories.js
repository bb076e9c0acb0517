// Stories: the clusters as cards, found by words, source, time and size, page by page.

import { getChanged, own, repeat } from './api.js';
import { strip } from './curve.js';
import { count, el, failed, language, moment, notice, shownId, shownSource, source, span, words } from './dom.js';

const CARDS = 24;
const COUNTED = 1000; // a list counts the sources of so many documents of a story
const REFRESH_MILLISECONDS = 4000;
const SORTS = { size: 'Largest', growth: 'Growing', recent: 'Latest', newest: 'Newest' };
const TIMES = [['', 'Any time'], ['3600', 'The last hour'], ['86400', 'The last day'], ['604800', 'The last week']];
const SIZES = [['', 'Any size'], ['5', '5 or more'], ['20', '20 or more'], ['100', '100 or more']];
const HEADLINE_CHARACTERS = 80;

const address = (values) => {
  const kept = Object.entries(values).filter(([, value]) => value);
  return `#/stories${kept.length ? `?${new URLSearchParams(kept)}` : ''}`;
};

export function stories(view, { query, signal, ready }) {
  const asked = Object.fromEntries(['q', 'source', 'collection', 'none', 'time', 'size', 'hidden', 'sort', 'cursor'].map((name) => [name, query.get(name) ?? '']));
  const sort = Object.hasOwn(SORTS, asked.sort) ? asked.sort : 'size';
  const cards = el('div', { class: 'cards', 'aria-busy': 'true' }, notice('loading', 'Loading the stories'));
  const said = el('p', { class: 'quiet', role: 'status' });
  const turn = el('p', { class: 'turn' });
  const form = search(asked);
  const choice = ([name, text]) => el('a', { href: address({ ...asked, sort: name, cursor: '' }), 'aria-current': sort === name ? 'true' : null }, text);
  view.append(
    el('div', { class: 'head' }, el('h1', {}, 'Stories'), el('p', { class: 'choices', role: 'group', 'aria-label': 'Order' }, Object.entries(SORTS).map(choice))),
    form, said, cards, turn,
  );
  let tag = null;

  async function load() {
    const { values, tag: found } = await getChanged(`/v1/clusters?${parameters(asked, sort)}`, tag, signal);
    if (values && !cards.contains(document.activeElement)) {
      tag = found;
      draw(values);
    }
    shown();
  }

  function shown() {
    cards.setAttribute('aria-busy', 'false');
    ready();
  }

  function draw({ clusters, next }) {
    if (!own.collections && clusters.some((one) => one.collection)) for (const field of form.querySelectorAll('.apart')) field.hidden = false;
    const filtered = asked.q || asked.source || asked.collection || asked.none || asked.time || asked.size || asked.hidden;
    cards.replaceChildren(...(clusters.length ? merged(clusters).map(card)
      : filtered ? [notice('empty', 'No story is like that', 'Try fewer words, a longer time, or stories of any size.', el('a', { href: '#/stories' }, 'All stories'))]
        : [notice('empty', 'No stories yet', 'A story begins when a second document says nearly the same as an earlier one.')]));
    const sentence = !clusters.length ? '' : `${count(clusters.length)} ${clusters.length === 1 ? 'story' : 'stories'}${next ? ', and more behind' : ''}.`;
    if (said.textContent !== sentence) said.textContent = sentence;
    turn.replaceChildren(
      asked.cursor ? el('a', { class: 'button', href: address({ ...asked, cursor: '' }) }, 'First page') : '',
      next ? el('a', { class: 'button', href: address({ ...asked, cursor: next }) }, 'Next page') : '');
  }
  repeat(load, REFRESH_MILLISECONDS, signal, (error) => { cards.replaceChildren(failed(error)); tag = null; shown(); });
}

function search(asked) {
  const apart = asked.collection || asked.none;
  const select = (name, values, label) => el('select', { name, 'aria-label': label },
    values.map(([value, text]) => el('option', { value, selected: value === asked[name] }, text)));
  const form = el('form', { class: 'search', role: 'search', onsubmit: (event) => {
    event.preventDefault();
    location.hash = address({ sort: asked.sort, ...Object.fromEntries(new FormData(form)) });
  } },
  el('input', { name: 'q', type: 'search', value: asked.q, dir: 'auto', maxlength: 200, placeholder: 'Words, an id or a source', 'aria-label': 'Words, an id or a source' }),
  el('input', { name: 'source', value: asked.source, dir: 'auto', placeholder: 'Any source', 'aria-label': 'Source' }),
  el('input', { name: 'collection', class: 'apart', value: asked.collection, dir: 'auto', hidden: !apart, placeholder: 'Any collection', 'aria-label': 'Collection' }),
  el('label', { class: 'apart', hidden: !apart, title: 'Documents that name no collection are one of their own: they never meet those of another one' },
    el('input', { name: 'none', type: 'checkbox', value: '1', checked: asked.none === '1' }), 'No collection'),
  select('time', TIMES, 'Time'), select('size', SIZES, 'Size'),
  el('label', { title: 'Stories that somebody has hidden' }, el('input', { name: 'hidden', type: 'checkbox', value: '1', checked: asked.hidden === '1' }), 'Hidden'), el('button', { type: 'submit', class: 'primary' }, 'Search'));
  for (const field of form.querySelectorAll('select, [type=checkbox]')) field.addEventListener('change', () => form.requestSubmit());
  return form;
}

function parameters(asked, sort) {
  const values = { sort, limit: CARDS, strip: true };
  for (const name of ['q', 'source', 'collection', 'cursor']) if (asked[name]) values[name] = asked[name];
  if (asked.none) values.collection = '';
  if (asked.hidden) values.muted = true;
  if (asked.size) values.size_min = asked.size;
  if (asked.time) values.since = Math.round(Date.now() / 1000 - Number(asked.time));
  return new URLSearchParams(values);
}

const headline = (cluster) => words(cluster.title ?? cluster.preview, cluster.representative ?? 'The first document was removed');

/** Stories of one headline are one card if they are related: the first one, and the others behind it. */
function merged(clusters) {
  const groups = [];
  for (const cluster of clusters) {
    const name = headline(cluster).slice(0, HEADLINE_CHARACTERS).toLowerCase();
    const group = groups.find((one) => one.name === name
      && (one.numbers.has(cluster.related) || one.related.has(cluster.related) || one.related.has(cluster.cluster)));
    if (group) group.others.push(cluster);
    const own = group ?? { name, first: cluster, others: [], related: new Set(), numbers: new Set() };
    if (!group) groups.push(own);
    own.numbers.add(cluster.cluster);
    if (typeof cluster.related === 'number') own.related.add(cluster.related);
  }
  return groups;
}

/** Over which time the documents are dated, or have arrived where they have no date. */
export const duration = (cluster) => {
  const length = cluster.last_date - cluster.first_date;
  return length < 1 ? 'of one time' : `dated over ${span(length)}`;
};

/** Within which time the documents arrived, where that is another time than that of their dates. */
export const arrived = (cluster) => {
  const length = cluster.last_time - cluster.first_time;
  if (Math.abs(length - (cluster.last_date - cluster.first_date)) < 60) return '';
  return length < 1 ? 'arrived at once' : `arrived within ${span(length)}`;
};

export function arrivals(cluster) {
  return el('div', { class: 'arrivals' },
    strip(cluster.strip, `${count(cluster.size)} documents ${arrived(cluster) || duration(cluster)}`),
    el('p', { class: 'axis' }, el('time', {}, moment(cluster.first_time)), el('span', {}, arrived(cluster) || duration(cluster)), el('time', {}, moment(cluster.last_time))));
}

/** The other sources of a story, each once. */
function also(cluster, own) {
  const names = [...new Set(cluster.others.map((id, i) => (cluster.other_sources[i] ? shownSource(cluster.other_sources[i]) : source(id))))].filter((name) => name !== own);
  const more = cluster.size - 1 - cluster.others.length;
  if (!names.length) return el('p', { class: 'also' }, `${count(cluster.size)} times from `, el('bdi', { class: 'chip' }, own));
  return el('p', { class: 'also' }, 'Also in ', names.flatMap((name) => [el('bdi', { class: 'chip' }, name), ' ']),
    more > 0 ? el('span', { class: 'more' }, `and ${count(more)} more ${more === 1 ? 'document' : 'documents'}`) : null);
}

function card({ first: cluster, others }) {
  const own = cluster.source ? shownSource(cluster.source) : source(cluster.representative ?? '');
  return el('article', { class: 'card' },
    el('p', { class: 'size' }, el('strong', {}, count(cluster.size)), el('span', {}, 'documents'),
      cluster.sources > 1 ? el('span', { class: 'counted' }, `from ${count(cluster.sources)}${cluster.size > COUNTED ? '+' : ''} sources`) : null, el('bdi', { class: 'by' }, own),
      cluster.collection ? el('bdi', { class: 'chip', title: 'Its collection' }, shownId(cluster.collection)) : null),
    el('h2', { dir: 'auto', lang: language(cluster.title ?? cluster.preview) }, el('a', { href: `#/story/${cluster.cluster}` }, headline(cluster))),
    also(cluster, own),
    others.length ? el('p', { class: 'also same' }, 'The same headline: ', others.flatMap((one) => [el('a', { href: `#/story/${one.cluster}` }, `${count(one.size)} documents`), ' '])) : null,
    arrivals(cluster));
}
