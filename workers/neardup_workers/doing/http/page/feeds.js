// Feeds: how the feeds are that neardup feed --to-serve watches, the worst first.

import { get, repeat } from './api.js';
import { count, el, failed, idNode, moment, notice, span, toArticle } from './dom.js';

const LISTED = 500;
const REFRESH_MILLISECONDS = 10_000;

export function feeds(view, { signal, ready }) {
  const panel = el('div', {}, notice('loading', 'Loading the feeds'));
  view.append(el('div', { class: 'head' }, el('h1', {}, 'Feeds')), panel);

  async function load() {
    const found = await get(`/v1/feeds?limit=${LISTED}`, signal);
    panel.replaceChildren(...(found.feeds.length ? [counts(found.counts), table(found.feeds)]
      : [notice('empty', 'No feeds are watched', 'Start neardup feed --to-serve with the address of this service.')]));
    ready();
  }
  repeat(load, REFRESH_MILLISECONDS, signal, (error) => { panel.replaceChildren(failed(error)); ready(); });
}

const counts = (states) => el('p', { class: 'states' }, Object.entries(states).filter(([, n]) => n)
  .map(([state, n]) => el('span', { class: 'state', 'data-state': state }, `${count(n)} ${state}`)));

const COLUMNS = ['Feed', 'State', 'Meaning', 'Last success', 'Last new item', 'Usual gap', 'Asked every'];
const when = (time) => (time === null || time === undefined ? '–' : moment(time));
const length = (seconds) => (seconds === null || seconds === undefined ? '–' : span(seconds));

function table(rows) {
  return el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Feeds' }, el('table', {},
    el('thead', {}, el('tr', {}, COLUMNS.map((name) => el('th', { scope: 'col' }, name)))),
    el('tbody', {}, rows.map((row) => el('tr', {},
      el('th', { scope: 'row' }, toArticle(row.url, idNode(row.url))),
      el('td', {}, el('span', { class: 'state', 'data-state': row.state }, row.state)),
      el('td', { class: 'names' }, row.meaning), el('td', {}, when(row.succeeded)), el('td', {}, when(row.brought)),
      el('td', {}, length(row.gap_seconds)), el('td', {}, length(row.wait_seconds)))))));
}
