// Sources: who tells what, who had it first by arrival and by date, and which source repeats itself.

import { get, repeat } from './api.js';
import { curve } from './curve.js';
import { count, csv, download, el, failed, moment, notice, percent, shownId, shownSource, span } from './dom.js';

const READ = 1000; // what the service lists at most; a file has all
const ROWS = 100;
const REFRESH_MILLISECONDS = 10_000;
const HOURS = 24;
const address = (name) => `#/source/${encodeURIComponent(name)}`;
const named = (name) => (name === null ? el('span', { class: 'quiet' }, 'no source') : el('a', { href: address(name) }, el('bdi', { title: shownId(name) }, shownSource(name))));

/** How far a source lies behind the originals of others: two answers, by arrival and by date. */
function lag(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (Math.abs(seconds) < 1) return 'at once';
  return `${span(Math.abs(seconds))} ${seconds < 0 ? 'earlier' : 'later'}`;
}

export function sources(view, { query, signal, ready }) {
  const asked = { q: query.get('q') ?? '', sort: query.get('sort') ?? 'documents', page: Math.max(Number(query.get('page')) || 0, 0) };
  const sort = Object.hasOwn(COLUMNS, asked.sort) ? asked.sort : 'documents';
  const here = (values) => `#/sources?${new URLSearchParams({ ...asked, ...values })}`;
  const banner = el('div', {});
  const said = el('p', { class: 'quiet', role: 'status' });
  const panel = el('div', {}, notice('loading', 'Loading the sources'));
  const turn = el('p', { class: 'turn' });
  const listing = (limit, skip) => get(`/v1/sources?${new URLSearchParams({ limit, skip, sort, ...(asked.q ? { q: asked.q } : {}) })}`, signal);
  let drawn = false;
  const form = el('form', { class: 'search', role: 'search', onsubmit: (event) => {
    event.preventDefault();
    location.hash = here({ q: new FormData(form).get('q'), page: 0 });
  } },
  el('input', { name: 'q', type: 'search', value: asked.q, dir: 'auto', maxlength: 200, placeholder: 'A part of a name', 'aria-label': 'A part of a name' }),
  el('button', { type: 'submit', class: 'primary' }, 'Search'),
  el('button', { type: 'button', class: 'link', onclick: () => exports().catch((error) => { if (!signal.aborted) said.textContent = error.title ?? 'The service does not answer.'; }) }, 'Export as CSV'));
  view.append(el('div', { class: 'head' }, el('h1', {}, 'Sources')), form, banner, said, panel, turn);
  let held = false;
  for (const [event, value] of [['mouseenter', true], ['mouseleave', false]]) panel.addEventListener(event, () => { held = value; });

  async function load() {
    const found = await listing(ROWS, asked.page * ROWS);
    if (!drawn || !(held || panel.contains(document.activeElement))) draw(found);
    ready();
  }

  /** A file of every source, also of those on other pages. */
  async function exports() {
    const rows = [];
    for (let more = true; more;) {
      said.textContent = `Reading the sources: ${count(rows.length)}`;
      const found = await listing(READ, rows.length);
      rows.push(...found.sources);
      more = found.sources.length > 0 && rows.length < found.count;
    }
    said.textContent = `The file has ${count(rows.length)} sources.`;
    download('sources.csv', 'text/csv', csv(EXPORTED, rows.map(exported)));
  }

  function draw(found) {
    const rows = found.sources;
    const first = asked.page * ROWS;
    drawn = rows.length > 0;
    const sentence = rows.length ? `${count(first + 1)} to ${count(first + rows.length)} of ${count(found.count)} sources.` : '';
    if (said.textContent !== sentence) said.textContent = sentence;
    const top = panel.querySelector('.scroll')?.scrollLeft ?? 0;
    banner.replaceChildren(...repeating(found.repeating));
    panel.replaceChildren(rows.length ? table(rows, sort, here)
      : asked.q || asked.page ? notice('empty', asked.page ? 'No sources on this page' : 'No source has that in its name', 'Try a shorter part of a name.', el('a', { href: '#/sources' }, 'All sources'))
        : notice('empty', 'No sources yet', 'A document names its source in the field source, or is named by an address.'));
    if (top) panel.querySelector('.scroll').scrollLeft = top;
    turn.replaceChildren(
      asked.page ? el('a', { class: 'button', href: here({ page: asked.page - 1 }) }, 'Page before') : '',
      first + rows.length < found.count && rows.length ? el('a', { class: 'button', href: here({ page: asked.page + 1 }) }, 'Next page') : '');
  }
  repeat(load, REFRESH_MILLISECONDS, signal, (error) => { panel.replaceChildren(failed(error)); ready(); });
}

function repeating(found) {
  return found.slice(-3).map((one) => el('p', { class: 'banner', role: 'status' }, named(one.source),
    ` repeats itself: ${count(one.repeated)} of ${count(one.documents)} documents of the hour ${one.hour === null ? '' : `from ${moment(one.hour)} `}are copies of its own other documents. A block page, a template, or a broken extractor?`));
}

const copies = (row) => (row.documents ? row.duplicates / row.documents : null);
// The order of a column, as the service names it -> its heading.
const COLUMNS = {
  source: 'Source', documents: 'Documents', copies: 'Copies', first_by_arrival: 'First by arrival', first_by_date: 'First by date',
  lag_seconds_by_arrival: 'Lag by arrival', lag_seconds_by_date: 'Lag by date',
};
const EXPORTED = ['source', 'documents', 'originals', 'duplicates', 'updates', 'first_by_arrival', 'first_by_date', 'lag_seconds_by_arrival', 'lag_seconds_by_date', 'earlier_in'];
const exported = (row) => ({ ...row, earlier_in: row.earlier_in.map((one) => one.source).join(' ') });

function table(rows, sort, here) {
  const heading = ([key, name]) => el('th', { scope: 'col', 'aria-sort': key !== sort ? null : key === 'source' ? 'ascending' : 'descending' },
    el('a', { href: here({ sort: key, page: 0 }) }, name));
  return el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Sources' }, el('table', {},
    el('thead', {}, el('tr', {}, Object.entries(COLUMNS).map(heading), el('th', { scope: 'col' }, 'Earlier in'))),
    el('tbody', {}, rows.map((row) => el('tr', {},
      el('th', { scope: 'row' }, named(row.source)), el('td', {}, count(row.documents)),
      el('td', {}, row.documents ? percent(copies(row)) : '–'),
      el('td', {}, count(row.first_by_arrival)), el('td', {}, count(row.first_by_date)),
      el('td', {}, lag(row.lag_seconds_by_arrival)), el('td', {}, lag(row.lag_seconds_by_date)),
      el('td', { class: 'names' }, row.earlier_in.slice(0, 2).flatMap((one) => [named(one.source), ' '])))))));
}

export function oneSource(view, { rest, signal, ready, named: title }) {
  const name = decodeURIComponent(rest.join('/'));
  title(shownSource(name));
  const panel = el('div', {}, notice('loading', 'Loading the source'));
  view.append(el('p', {}, el('a', { class: 'back', href: '#/sources' }, 'All sources')), el('h1', {}, el('bdi', { title: shownId(name) }, shownSource(name))), panel);

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
