// Sources: who tells what, who had it first by arrival and by date, and which source repeats itself.

import { get } from './api.js';
import { curve } from './curve.js';
import { count, el, failed, moment, notice, percent, shownId, span } from './dom.js';

const LISTED = 200;
const REFRESH_MILLISECONDS = 10_000;
const HOURS = 24;
const address = (name) => `#/source/${encodeURIComponent(name)}`;
const named = (name) => (name === null ? el('span', { class: 'quiet' }, 'no source') : el('a', { href: address(name) }, el('bdi', {}, shownId(name))));

/** How far a source lies behind the originals of others: two answers, by arrival and by date. */
function lag(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (Math.abs(seconds) < 1) return 'at once';
  return `${span(Math.abs(seconds))} ${seconds < 0 ? 'earlier' : 'later'}`;
}

export function sources(view, { signal, ready }) {
  const panel = el('div', {}, notice('loading', 'Loading the sources'));
  view.append(el('div', { class: 'head' }, el('h1', {}, 'Sources')), panel);

  async function load() {
    try {
      const found = await get(`/v1/sources?limit=${LISTED}`, signal);
      panel.replaceChildren(...repeating(found.repeating), found.sources.length ? table(found.sources)
        : notice('empty', 'No sources yet', 'A document names its source in the field source, or is named by an address.'));
    } catch (error) {
      if (!signal.aborted) panel.replaceChildren(failed(error));
    }
    ready();
    if (!signal.aborted) setTimeout(load, REFRESH_MILLISECONDS);
  }
  load();
}

function repeating(found) {
  return found.slice(-3).map((one) => el('p', { class: 'banner', role: 'status' }, named(one.source),
    ` repeats itself: ${count(one.repeated)} of ${count(one.documents)} documents of the hour ${one.hour === null ? '' : `from ${moment(one.hour)} `}are copies of its own other documents. A block page, a template, or a broken extractor?`));
}

const COLUMNS = ['Source', 'Documents', 'Copies', 'First by arrival', 'First by date', 'Lag by arrival', 'Lag by date', 'Earlier in'];

function table(rows) {
  return el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Sources' }, el('table', {},
    el('thead', {}, el('tr', {}, COLUMNS.map((name) => el('th', { scope: 'col' }, name)))),
    el('tbody', {}, rows.map((row) => el('tr', {},
      el('th', { scope: 'row' }, named(row.source)), el('td', {}, count(row.documents)),
      el('td', {}, row.documents ? percent(row.duplicates / row.documents) : '–'),
      el('td', {}, count(row.first_by_arrival)), el('td', {}, count(row.first_by_date)),
      el('td', {}, lag(row.lag_seconds_by_arrival)), el('td', {}, lag(row.lag_seconds_by_date)),
      el('td', { class: 'names' }, row.earlier_in.slice(0, 2).flatMap((one) => [named(one.source), ' '])))))));
}

export function oneSource(view, { rest, signal, ready }) {
  const name = decodeURIComponent(rest.join('/'));
  const panel = el('div', {}, notice('loading', 'Loading the source'));
  view.append(el('p', {}, el('a', { class: 'back', href: '#/sources' }, 'All sources')), el('h1', {}, el('bdi', {}, shownId(name))), panel);

  async function load() {
    try {
      panel.replaceChildren(...told(await get(`/v1/sources/${encodeURIComponent(name)}`, signal)));
    } catch (error) {
      if (!signal.aborted) panel.replaceChildren(failed(error, load));
    }
    ready();
  }
  load();
}

function told(found) {
  const fact = (name, value) => el('div', {}, el('dt', {}, name), el('dd', {}, value));
  const last = found.hours.filter((one) => one.hour !== null);
  const end = last.at(-1)?.hour ?? 0;
  const day = Array.from({ length: HOURS }, (_, n) => last.find((one) => one.hour === end - 3600 * (HOURS - 1 - n))?.documents ?? 0);
  const partners = (title, rows) => el('section', { class: 'partners' }, el('h2', {}, title), rows.length
    ? el('ol', {}, rows.map((one) => el('li', {}, named(one.source), el('span', { class: 'score' }, count(one.documents)))))
    : el('p', { class: 'quiet' }, 'none'));
  return [
    el('p', { class: 'quiet' }, el('a', { href: `#/stories?${new URLSearchParams({ source: found.source ?? '' })}` }, 'Its stories')),
    el('dl', { class: 'account' }, fact('Documents', count(found.documents)), fact('Originals', count(found.originals)), fact('Copies', count(found.duplicates)),
      fact('Updates', count(found.updates)), fact('Refused', count(found.refused)), fact('Late', count(found.late)),
      fact('First by arrival', count(found.first_by_arrival)), fact('First by date', count(found.first_by_date)),
      fact('Lag by arrival', lag(found.lag_seconds_by_arrival)), fact('Lag by date', lag(found.lag_seconds_by_date))),
    last.length ? el('figure', { class: 'growth' }, el('p', { class: 'scale' }, `${count(Math.max(...day))} documents an hour`),
      el('div', { class: 'picture' }, curve(day, { label: 'Documents by hour of its last day' })), el('figcaption', {}, `The day until ${moment(end + 3600)}`)) : '',
    el('div', { class: 'sides' }, partners('Its copies are earlier in', found.earlier_in), partners('Its originals are later in', found.later_in)),
  ];
}
