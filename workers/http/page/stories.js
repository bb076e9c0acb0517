// Stories: the clusters as cards, and one cluster with its members, page by page.

import { get } from './api.js';
import { strip } from './curve.js';
import { count, el, failed, idNode, moment, notice, score, source, span, words } from './dom.js';
import { pairAddress } from './pair.js';

const CARDS = 24;
const MEMBERS = 50;
const REFRESH_MILLISECONDS = 4000;

export function stories(view, { query, signal, ready }) {
  const sort = query.get('sort') === 'recent' ? 'recent' : 'size';
  const cards = el('div', { class: 'cards' });
  const choice = (name, text) => el('a', { href: `#/stories?sort=${name}`, 'aria-current': sort === name ? 'true' : null }, text);
  view.append(
    el('div', { class: 'head' }, el('h1', {}, 'Stories'), el('p', { class: 'choices', role: 'group', 'aria-label': 'Order' }, choice('size', 'Largest'), choice('recent', 'Newest'))),
    cards,
  );
  cards.append(notice('loading', 'Loading the stories'));
  let before = '';

  async function load() {
    try {
      const { clusters } = await get(`/v1/clusters?sort=${sort}&limit=${CARDS}&strip=true`, signal);
      const written = JSON.stringify(clusters);
      if (written !== before && !cards.contains(document.activeElement)) {
        before = written;
        cards.replaceChildren(...(clusters.length ? clusters.map(card)
          : [notice('empty', 'No stories yet', 'A story begins when a second document says nearly the same as an earlier one.')]));
      }
    } catch (error) {
      if (!signal.aborted) cards.replaceChildren(failed(error));
      before = '';
    }
    ready();
    if (!signal.aborted) setTimeout(load, REFRESH_MILLISECONDS);
  }
  load();
}

// The times are those of the documents, or of their arrival where they have none.
const duration = (cluster) => {
  const length = cluster.last_time - cluster.first_time;
  return length < 1 ? 'of one time' : `dated over ${span(length)}`;
};

function arrivals(cluster) {
  return el('div', { class: 'arrivals' },
    strip(cluster.strip, `${count(cluster.size)} documents ${duration(cluster)}`),
    el('p', { class: 'axis' }, el('time', {}, moment(cluster.first_time)), el('span', {}, duration(cluster)), el('time', {}, moment(cluster.last_time))));
}

/** The other sources of a story, each once. */
function also(cluster) {
  const own = source(cluster.representative ?? '');
  const names = [...new Set(cluster.others.map(source))].filter((name) => name !== own);
  const more = cluster.size - 1 - cluster.others.length;
  if (!names.length) return el('p', { class: 'also' }, `${count(cluster.size)} times from `, el('bdi', { class: 'chip' }, own));
  return el('p', { class: 'also' }, 'Also from ', names.flatMap((name) => [el('bdi', { class: 'chip' }, name), ' ']),
    more > 0 ? el('span', { class: 'more' }, `and ${count(more)} more`) : null);
}

function card(cluster) {
  const first = cluster.representative ?? '';
  return el('article', { class: 'card' },
    el('p', { class: 'size' }, el('strong', {}, count(cluster.size)), el('span', {}, 'documents'), el('bdi', { class: 'by' }, source(first))),
    el('h2', { dir: 'auto' }, el('a', { href: `#/story/${cluster.cluster}` }, words(cluster.preview, first || 'The first document was removed'))),
    also(cluster), arrivals(cluster));
}

/** The versions of the document that began the story, the newest first. */
function updates(cluster) {
  if (!cluster.updates.length) return null;
  return el('section', { class: 'updates' }, el('h2', {}, 'Updates'),
    el('ol', { class: 'members', reversed: true }, cluster.updates.map((update) => el('li', {},
      el('time', {}, moment(update.date ?? update.time)), idNode(update.id),
      el('span', { class: 'score', title: 'similarity to the version that was compared' }, score(update.similarity))))));
}

export function story(view, { rest, signal, ready }) {
  const number = Number(rest[0]);
  const pages = [-1]; // the place that each page begins behind
  const place = el('div', { class: 'story' }, notice('loading', 'Loading the story'));
  view.append(el('p', {}, el('a', { class: 'back', href: '#/stories' }, 'All stories')), place);

  async function load(refocus = false) {
    try {
      const after = pages.at(-1);
      const cluster = await get(`/v1/clusters/${number}?limit=${MEMBERS}${after < 0 ? '' : `&after=${after}`}`, signal);
      place.replaceChildren(...told(cluster));
      if (refocus) place.querySelector('h2[tabindex]').focus();
    } catch (error) {
      if (!signal.aborted) place.replaceChildren(failed(error, () => load()));
    }
    ready();
  }

  function told(cluster) {
    const first = (pages.length - 1) * MEMBERS;
    const original = cluster.representative;
    const turn = (text, enabled, change) => el('button', { type: 'button', disabled: !enabled, onclick: () => { change(); load(true); } }, text);
    return [
      el('h1', { dir: 'auto', class: 'story-title' }, words(cluster.preview, original ?? 'The first document was removed')),
      el('p', { class: 'quiet' }, `${count(cluster.size)} documents ${duration(cluster)}. `,
        cluster.related === null || cluster.related === undefined ? null : el('a', { href: `#/story/${cluster.related}` }, 'A related story')),
      arrivals(cluster),
      updates(cluster),
      el('h2', { tabindex: -1 }, `Documents ${count(first + 1)} to ${count(first + cluster.members.length)} of ${count(cluster.size)}`),
      el('ol', { class: 'members', start: first + 1 }, cluster.members.map((member) => el('li', {},
        el('time', {}, moment(member.date ?? member.time)), idNode(member.id),
        member.id === original ? el('span', { class: 'tag', title: 'It arrived before the others; their dates may be earlier' }, 'arrived first')
          : el('span', { class: 'score', title: member.similarity === null ? '' : `similarity ${score(member.similarity)}` }, member.similarity === null ? '' : score(member.similarity)),
        member.id === original ? el('span') : el('a', { href: pairAddress(member.duplicate_of ?? original, member.id) }, 'Compare')))),
      el('p', { class: 'turn' },
        turn('Earlier', pages.length > 1, () => pages.pop()),
        turn('Later', cluster.next !== null && cluster.next !== undefined, () => pages.push(cluster.next))),
    ];
  }
  load();
}
