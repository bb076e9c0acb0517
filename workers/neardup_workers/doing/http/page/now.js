// Now: what happens, in one sentence and four figures, and what an operator looks at.

import { get, repeat } from './api.js';
import { curve, smooth } from './curve.js';
import { chance, clock, compact, count, el, failed, language, moment, percent, rate, score, seconds, shownId, shownSource, source, span, words } from './dom.js';
import { pairAddress } from './pair.js';

const HISTORY_MILLISECONDS = 5000;
const POINTS_MIN = 30; // a young service has a curve of its first five minutes
const NUMBERS = ['', '', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'];
const LIST_MILLISECONDS = 900;

/** A figure with its name, its value, a line below, and its picture. */
function tile(name) {
  const value = el('span', { class: 'value' }, '–');
  const unit = el('span', { class: 'unit' });
  const below = el('p', { class: 'below' });
  const picture = el('div', { class: 'picture' });
  const axis = el('p', { class: 'axis' });
  const scale = el('p', { class: 'scale' });
  const node = el('section', { class: 'tile' }, el('h2', {}, name), el('p', { class: 'number' }, value, unit), below, scale, picture, axis);
  const drawn = (values, shape, shown) => {
    const most = Math.max(shape.top ?? 0, ...values.filter((one) => one !== null));
    scale.textContent = values.length && most > 0 ? `up to ${shown(most)}` : '';
    picture.replaceChildren(curve(values, shape));
  };
  return { node, axis, drawn, set: (text, suffix, line) => { value.textContent = text; unit.textContent = suffix; below.textContent = line; } };
}

/** The sentence at the top. */
function headline(figures) {
  if (figures.documents_per_second === 0) {
    return figures.documents ? ['It is quiet.', 'No document came in the last seconds.'] : ['Waiting for documents.', 'Send the first one to POST /v1/check.'];
  }
  const speed = figures.documents_per_second;
  const first = speed >= 0.95 ? `${count(Math.round(speed))} document${Math.round(speed) === 1 ? '' : 's'} a second.` : `${rate(60 * speed)} documents a minute.`;
  const fraction = figures.duplicate_fraction;
  if (!fraction) return [first, 'None of them is a copy.'];
  const one = Math.round(1 / fraction);
  const second = fraction > 0.9 ? 'Nearly all are copies of what was seen before.'
    : fraction > 0.6 ? 'Most are copies of what was seen before.'
      : fraction > 0.4 ? 'About half are copies of what was seen before.'
        : `About one in ${NUMBERS[one] ?? count(one)} is a copy of something seen before.`;
  return [first, second];
}

export function now(view, { signal, ready }) {
  const tiles = { speed: tile('Documents a second'), copies: tile('Copies'), time: tile('Time to answer'), window: tile('Window'), recall: tile('Recall') };
  tiles.recall.node.classList.add('recall');
  const [first, second] = [el('span', { class: 'first' }), el('span', { class: 'second' })];
  const list = el('ol', { class: 'latest' });
  const empty = el('p', { class: 'quiet' }, 'No copy has been found yet.');
  const problem = el('div', {});
  const strip = el('dl', { class: 'operation', 'aria-label': 'Since the start' });
  view.append(
    el('h1', { class: 'headline', 'aria-live': 'off' }, first, ' ', second), problem,
    el('div', { class: 'tiles' }, Object.values(tiles).map((one) => one.node)),
    strip,
    el('section', { class: 'just' }, el('h2', {}, 'Just found'), empty, list),
  );
  let settings = null;
  let last = null;

  function shown(figures) {
    last = figures;
    const [a, b] = headline(figures);
    first.textContent = a;
    second.textContent = b;
    tiles.speed.set(rate(figures.documents_per_second), '', `${count(figures.documents)} since the start`);
    tiles.copies.set(figures.duplicate_fraction === null ? '–' : percent(figures.duplicate_fraction), '', figures.duplicate_fraction === null ? 'no document in the last minute' : 'of the last minute');
    const [value, unit] = figures.seconds_median === null ? ['–', ''] : seconds(figures.seconds_median);
    tiles.time.set(value, unit, figures.seconds_p99 === null ? 'no single check in the last minute' : `99 of 100 within ${seconds(figures.seconds_p99).join(' ')}`);
    if (settings) {
      const full = figures.window_documents / settings.window_documents;
      const time = settings.window_seconds ? `, ${span(settings.window_seconds)}` : '';
      tiles.window.set(compact(figures.window_documents), '', `${chance(full)} of ${compact(settings.window_documents)}${time}`);
    }
    view.dataset.documents = figures.documents;
  }

  function drawn({ history }) {
    const points = Math.max(POINTS_MIN, history.documents.length);
    const minutes = Math.round((points * history.step_seconds) / 60);
    const each = smooth(history.documents.map((n) => n / history.step_seconds).slice(0, -1), 3);
    const fraction = smooth(history.documents.map((n, i) => (n ? history.duplicates[i] / n : null)), 3);
    const hour = { points };
    for (const one of [tiles.speed, tiles.copies, tiles.time, tiles.window]) one.axis.replaceChildren(el('span', {}, minutes === 60 ? 'an hour ago' : `${minutes} minutes ago`), el('span', {}, 'now'));
    tiles.speed.drawn(each, { ...hour, label: 'Documents a second in the last hour' }, rate);
    tiles.copies.drawn(fraction, { ...hour, top: 0.5, label: 'Fraction of copies in the last hour' }, percent);
    tiles.time.drawn(smooth(history.seconds_median, 3), { ...hour, label: 'Median time to answer in the last hour' }, (one) => seconds(one).join(' '));
    tiles.window.drawn(history.window_documents, { ...hour, label: 'Documents in the window in the last hour' }, compact);
  }

  /** What canaries have found, else what the settings promise; and what limits cost. */
  function measured(recall) {
    const promised = `${percent(settings.recall)} of the pairs at ${score(settings.threshold)} are promised`;
    const found = recall?.canaries.recall;
    const missed = recall?.limits.missed ? `; limits cost ${count(recall.limits.missed)} of ${count(recall.limits.found + recall.limits.missed)} pairs, and at least ${percent(recall.limits.documents ?? 1, 2)} of documents with a pair keep one` : '';
    const wrong = recall?.canaries.faults ? `${count(recall.canaries.faults)} documents of the window were not found; ` : recall?.canaries.alarm ? 'Less is found than promised; ' : '';
    if (!found) return tiles.recall.set('–', '', `${wrong}${recall?.canaries.every ? 'no edited copy has been looked up yet' : 'not measured'}; ${promised}${missed}`);
    const range = `${percent(found.low, 1)} to ${percent(found.high, 1)}`;
    tiles.recall.set(percent(found.value, 1), '', `${wrong}${range}: ${count(recall.canaries.found)} of ${count(recall.canaries.trials)} edited copies found; ${promised}${missed}`);
  }

  async function load() {
    const figures = await get('/v1/figures', signal);
    settings = figures.settings;
    problem.replaceChildren();
    shown(last ?? figures.present);
    drawn(figures);
    measured(figures.recall);
    strip.replaceChildren(...operated(figures.operation));
    listed(figures.present.latest);
    ready();
  }

  let held = false;
  let drawnAt = 0;
  for (const [event, value] of [['mouseenter', true], ['mouseleave', false], ['focusin', true], ['focusout', false]]) {
    list.addEventListener(event, () => { held = value; });
  }

  function listed(latest) {
    if (held || performance.now() - drawnAt < LIST_MILLISECONDS) return;
    drawnAt = performance.now();
    empty.hidden = latest.length > 0;
    const rows = new Map([...list.children].map((row) => [row.dataset.place, row]));
    list.replaceChildren(...latest.slice(0, 8).map((verdict) => rows.get(String(verdict.place)) ?? row(verdict)));
  }

  repeat(load, HISTORY_MILLISECONDS, signal, (error) => { problem.replaceChildren(failed(error)); ready(); });
  return (figures) => {
    shown(figures);
    listed(figures.latest);
  };
}

/** What was left out or refused since the start, the disk, and the last checkpoint. */
function operated(values) {
  const refused = Object.entries(values.refused).sort((a, b) => b[1] - a[1]);
  const all = refused.reduce((sum, [, n]) => sum + n, 0);
  const fact = (name, value, line = '') => el('div', {}, el('dt', {}, name), el('dd', {}, value, line ? el('small', {}, line) : null));
  return [
    fact('Late', count(values.late)), fact('Truncated', count(values.truncated)), fact('Evicted', count(values.evicted)),
    fact('Refused', count(all), refused.slice(0, 3).map(([reason, n]) => `${reason} ${count(n)}`).join(', ')),
    fact('4xx', count(values.client_errors)), fact('5xx', count(values.server_errors)),
    fact('Disk', bytes(values.store_bytes), `${bytes(values.free_bytes)} free`),
    fact('Last checkpoint', values.checkpoint_time === null ? '–' : moment(values.checkpoint_time)),
  ];
}

const bytes = (n) => (n < 1e6 ? `${Math.round(n / 1e3)} kB` : n < 1e9 ? `${Math.round(n / 1e6)} MB` : `${(n / 1e9).toFixed(1)} GB`);

const named = (name, id) => el('bdi', { title: shownId(id) }, name ? shownSource(name) : source(id));

function row(verdict) {
  const original = verdict.duplicate_of;
  const said = verdict.title ?? verdict.preview;
  const title = words(said, verdict.id);
  const shown = { class: 'title', dir: 'auto', lang: language(said) };
  const link = original === null ? el('span', shown, title)
    : el('a', { ...shown, href: pairAddress(original, verdict.id, verdict.collection), title: `Compare with ${shownId(original)}` }, title);
  return el('li', { 'data-place': verdict.place },
    el('time', {}, clock(verdict.time)), link,
    el('span', { class: 'from' }, named(verdict.source, verdict.id), original === null ? null : [' also in ', named(verdict.original_source, original)]),
    el('span', { class: 'score' }, verdict.similarity === null ? '' : score(verdict.similarity)));
}
