// One story: its documents page by page, how it grew, its versions, and the whole of it as a file.

import { get, post } from './api.js';
import { curve } from './curve.js';
import { count, csv, download, el, expands, failed, idNode, language, linked, moment, notice, score, shownSource, source, toArticle, words } from './dom.js';
import { differences, pairAddress, SAME } from './pair.js';
import { arrivals, arrived, duration } from './stories.js';

const MEMBERS = 50;
const EXPORTED = 1000; // documents of a request
const EXPORTED_MAX = 100_000;
const COLUMNS = ['id', 'source', 'title', 'url', 'status', 'duplicate_of', 'similarity', 'time', 'date', 'place'];

export function story(view, { rest, query, signal, ready, named }) {
  const number = Number(rest[0]);
  const pages = [-1]; // the place that each page begins behind
  const byDate = query.get('sort') === 'date'; // then a request has as many as it may: a date says nothing of other pages
  const size = byDate ? EXPORTED : MEMBERS;
  let part = 0; // of them, by date
  const panel = el('div', { class: 'story' }, notice('loading', 'Loading the story'));
  view.append(el('p', {}, el('a', { class: 'back', href: '#/stories' }, 'All stories')), panel);

  async function load(refocus = false) {
    try {
      const after = pages.at(-1);
      const cluster = await get(`/v1/clusters/${number}?limit=${size}${after < 0 ? '' : `&after=${after}`}`, signal);
      panel.replaceChildren(...told(cluster).filter(Boolean));
      named(panel.querySelector('h1').textContent);
      if (refocus) panel.querySelector('h2[tabindex]').focus();
    } catch (error) {
      if (!signal.aborted) panel.replaceChildren(failed(error, () => load()));
    }
    ready();
  }

  function told(cluster) {
    const all = timeline(cluster, pages.at(-1), byDate);
    if (byDate) part = Math.max(0, Math.min(part, Math.ceil(all.length / MEMBERS) - 1));
    const list = byDate ? all.slice(part * MEMBERS, (part + 1) * MEMBERS) : all;
    const updates = list.filter(isUpdate).length;
    const first = (pages.length - 1) * size + all.slice(0, part * MEMBERS).filter((one) => !isUpdate(one)).length;
    const original = cluster.representative;
    const hasMore = (part + 1) * MEMBERS < all.length && byDate;
    const turn = (text, enabled, change) => el('button', { type: 'button', disabled: !enabled, onclick: () => { change(); load(true); } }, text);
    return [
      el('h1', { dir: 'auto', lang: language(cluster.title ?? cluster.preview), class: 'story-title' }, words(cluster.title ?? cluster.preview, original ?? 'The first document was removed')),
      el('p', { class: 'quiet' }, `${count(cluster.size)} documents${cluster.sources > 1 ? ` from ${count(cluster.sources)} sources,` : ''} ${[duration(cluster), arrived(cluster)].filter(Boolean).join(', ')}. `,
        typeof cluster.related === 'number' ? el('a', { href: `#/story/${cluster.related}` }, 'A related story') : null),
      desk(cluster), arrivals(cluster), growth(cluster), exports(cluster),
      el('h2', { tabindex: -1 }, `Documents ${count(first + 1)} to ${count(first + list.length - updates)} of ${count(cluster.size)}${updates ? `, and ${count(updates)} update${updates === 1 ? '' : 's'}` : ''}`),
      el('p', { class: 'choices', role: 'group', 'aria-label': 'Order' }, [['', 'By arrival'], ['?sort=date', 'By date']].map(([query_, text]) =>
        el('a', { href: `#/story/${cluster.cluster}${query_}`, 'aria-current': Boolean(query_) === byDate ? 'true' : null }, text))),
      el('ol', { class: 'members' }, list.map((one) => (isUpdate(one) ? version(one, signal) : row(one, original, cluster)))),
      el('p', { class: 'turn' },
        turn('Earlier', part > 0 || pages.length > 1, () => { if (part) part -= 1; else { pages.pop(); part = byDate ? Infinity : 0; } }),
        turn('Later', hasMore || typeof cluster.next === 'number', () => { if (hasMore) part += 1; else { pages.push(cluster.next); part = 0; } })),
    ];
  }

  /** Hide the story and its later copies, or have its new documents as events. */
  function desk(cluster) {
    const said = el('span', { role: 'status' });
    const to = el('input', { name: 'to', type: 'url', 'aria-label': 'Address of its events, that of the web hook without one', placeholder: 'Address, or the web hook' });
    const button = (name, is, text) => el('button', { type: 'button', 'data-desk': name, 'aria-pressed': String(is), onclick: async () => {
      try {
        const more = name === 'followed' && !is && to.value ? { to: to.value } : {};
        const now = await post(`/v1/clusters/${cluster.cluster}?${new URLSearchParams({ [name]: !is, ...more })}`, {}, signal);
        panel.querySelector('.desk').replaceWith(desk({ ...cluster, ...now }));
        panel.querySelector(`[data-desk=${name}]`).focus();
      } catch (error) {
        if (!signal.aborted) said.textContent = [error.title, error.detail].filter(Boolean).join(' ') || 'The service does not answer.';
      }
    } }, text);
    return el('p', { class: 'desk' }, button('muted', cluster.muted, 'Hide everywhere'), button('followed', cluster.followed, 'Follow'),
      cluster.followed ? '' : to, cluster.muted ? el('span', { class: 'quiet' }, 'Hidden: lists and feeds leave it out.') : '', said);
  }

  function exports(cluster) {
    const said = el('span', { role: 'status' });
    const button = (kind, text) => el('button', { type: 'button', class: 'link', onclick: async () => {
      said.textContent = 'Reading the documents';
      try {
        const members = await everyMember(cluster.cluster, signal);
        said.textContent = members.length < cluster.size ? `The first ${count(members.length)} documents.` : '';
        const name = `story-${cluster.cluster}.${kind}`;
        if (kind === 'json') download(name, 'application/json', JSON.stringify({ ...cluster, members, next: undefined }, null, 1));
        else download(name, 'text/csv', csv(COLUMNS, members.map(dated)));
      } catch (error) {
        if (!signal.aborted) said.textContent = error.title ?? 'The service does not answer.';
      }
    } }, text);
    return el('p', { class: 'exports' }, button('json', 'Export as JSON'), button('csv', 'Export as CSV'),
      el('a', { href: `#/story/${cluster.cluster}` }, 'Permanent address'), said);
  }
  load();
}

const isUpdate = (one) => one.status === 'update';
const dateOf = (one) => one.date ?? one.time;

/** The documents of a page with the updates that arrived among them, in order of arrival or of their dates. */
function timeline(cluster, after, byDate) {
  const [least, most] = [after, cluster.next ?? Infinity];
  const all = [...cluster.members, ...(cluster.updates ?? []).filter(({ place }) => place > least && place <= most)];
  return all.sort((a, b) => (byDate ? dateOf(a) - dateOf(b) : 0) || a.place - b.place);
}

/** Both times of a document, who tells it, and where. */
function about(member) {
  const link = linked(member.url) ?? linked(member.id);
  const title = member.title ? el('span', { class: 'said', dir: 'auto', lang: language(member.title) }, words(member.title, '')) : null;
  const name = el('bdi', { class: 'source' }, member.source ? shownSource(member.source) : source(member.id));
  return [
    el('div', { class: 'times' }, el('time', {}, moment(dateOf(member))),
      member.date === null || member.date === undefined ? null : el('small', {}, `arrived ${moment(member.time)}`)),
    el('div', { class: 'what' }, title, el('span', { class: 'line' }, name, ' ', link ? toArticle(link, 'Open the article') : null), idNode(member.id),
      (member.quotes ?? []).map((one) => quote(QUOTES[one.relation], one, member)), (member.quoted_by ?? []).map((one) => quote(QUOTED[one.relation], one, member))),
  ];
}

// What a later document is to an earlier one, as each of them says it.
const QUOTES = { part_of: 'Part of', contains: 'Contains', shares: 'Quotes' };
const QUOTED = { part_of: 'A part of it is', contains: 'Contained in', shares: 'Quoted by' };

/** A document of another story with the same passages: a link to its story, and to both side by side. */
function quote(says, other, member) {
  return el('span', { class: 'line quote' }, says, ' ', el('a', { href: `#/story/${other.cluster}`, dir: 'auto', lang: language(other.title) }, words(other.title, other.id)), ' ',
    other.source ? [el('bdi', { class: 'source' }, shownSource(other.source)), ' '] : null, el('a', { href: pairAddress(other.id, member.id, member.collection) }, 'Compare'));
}

/** One document. The first one by its date may have arrived later. */
function row(member, original, cluster) {
  const [times, what] = about(member);
  if (member.id !== original && dateOf(member) === cluster.first_date && cluster.first_date < cluster.last_date) what.append(el('span', { class: 'tag' }, 'first by date'));
  return el('li', {}, times, what,
    member.id === original ? el('span', { class: 'tag', title: 'It arrived before the others; their dates may be earlier' }, 'arrived first')
      : el('span', { class: 'score', title: member.similarity === null ? '' : `similarity ${score(member.similarity)}` }, member.similarity === null ? '' : score(member.similarity)),
    member.id === original ? el('span') : el('a', { href: pairAddress(member.duplicate_of ?? original, member.id, member.collection) }, 'Compare'));
}

/** How many documents the story had at each moment. */
function growth(cluster) {
  if (cluster.last_time - cluster.first_time < 1) return null;
  let sum = 0;
  const sums = cluster.strip.map((n) => { sum += n; return sum; });
  return el('figure', { class: 'growth' }, el('p', { class: 'scale' }, `${count(cluster.size)} documents`),
    el('div', { class: 'picture' }, curve(sums, { label: `How the story grew to ${count(cluster.size)} documents` })),
    el('figcaption', {}, 'How the story grew'));
}

/** An update: what it says that is new, and in what it differs from the compared version. */
function version(update, signal) {
  const open = el('button', { type: 'button', class: 'link' }, 'Changes');
  const [times, what] = about(update);
  what.prepend(el('span', { class: 'tag' }, 'update'));
  if (update.new?.length) what.append(el('span', { class: 'new', title: 'What it says that the compared version does not' }, 'New: ', update.new.flatMap((word) => [el('strong', { dir: 'auto' }, word.text), ' '])));
  const item = el('li', { class: 'update' }, times, what,
    el('span', { class: 'score', title: 'similarity to the version that was compared' }, score(update.similarity)),
    typeof update.matched === 'number' ? open : el('span'));
  expands(open, item, 'changes', signal, async () => {
    const { passages } = await get(`/v1/differences?older=${update.matched}&newer=${update.place}`, signal);
    return [differences({ older: 'before', newer: 'after', passages }, true, { before: 'The compared version', after: 'This version' })];
  });
  return item;
}

async function everyMember(number, signal) {
  const members = [];
  for (let after = -1; after !== null && members.length < EXPORTED_MAX;) {
    const page = await get(`/v1/clusters/${number}?limit=${EXPORTED}${after < 0 ? '' : `&after=${after}`}`, signal);
    members.push(...page.members);
    after = page.next ?? null;
  }
  return members;
}

/** A document with its times as a spreadsheet reads them. */
const dated = (member) => ({ ...member, time: iso(member.time), date: iso(member.date) });
const iso = (time) => (typeof time === 'number' ? new Date(1000 * time).toISOString() : time);
