// Judge: fifty pairs around the threshold in turn. The keys 1 and 0 say whether they are duplicates; the result is a threshold.

import { get, own } from './api.js';
import { count, download, el, failed, notice, percent, score } from './dom.js';
import { marks } from './marks.js';
import { differences, idsOf } from './pair.js';

const PAIRS = 50;
const STORIES = 60; // stories that are looked at for pairs
const MEMBERS = 50;
const RELATED = 40; // pairs of related stories that are compared
const MARKS_MIN = 10;
const RESAMPLES = 400;

export function judge(view, { signal, ready }) {
  const panel = el('div', { class: 'judge' }, notice('loading', 'Looking for pairs around the threshold'));
  const result = el('div', { class: 'result', 'aria-live': 'polite' });
  view.append(el('h1', {}, 'Judge'), el('p', { class: 'quiet' }, 'Are the two duplicates? Press 1 for yes and 0 for no. The marks give a threshold.'), panel, result);
  let pairs = [];
  let at = 0;
  let settings = null;
  const marked = []; // similarity, 1 or 0

  async function load() {
    try {
      ({ settings } = await get('/v1/figures', signal));
      if (!settings.compares) panel.replaceChildren(notice('empty', 'This service has no signatures to compare', 'Ask a service with a window of its own.'));
      else {
        if (!own.collections) result.append(...held(await get('/v1/judged', signal)));
        pairs = await around(settings.score_min, signal);
        await show();
      }
    } catch (error) {
      if (!signal.aborted) panel.replaceChildren(failed(error, load));
    }
    ready();
  }

  async function show() {
    if (at >= pairs.length) {
      panel.replaceChildren(notice('empty', pairs.length ? 'These were all pairs' : 'No pairs yet', pairs.length ? 'The threshold below follows from your marks.' : 'Pairs come from stories with two documents or more.'));
      return;
    }
    const [older, newer, , collection] = pairs[at];
    const why = await get(`/v1/why?${idsOf(older, newer, collection)}`, signal);
    if (typeof why.similarity !== 'number') {
      at += 1;
      await show();
      return;
    }
    const button = (mark, text, key) => el('button', { type: 'button', 'data-mark': mark, onclick: () => say(why, mark) }, text, ' ', el('kbd', {}, key));
    panel.replaceChildren(
      el('p', { class: 'quiet' }, `Pair ${count(at + 1)} of ${count(pairs.length)}, similarity ${score(why.similarity)}`),
      el('div', { class: 'marking', role: 'group', 'aria-label': 'Are they duplicates?' }, button('duplicate', 'Duplicates', '1'), button('different', 'Not duplicates', '0')),
      differences(why, settings.keep_texts));
  }

  function say(why, mark) {
    if (marks.of(why.older, why.newer) !== mark) marks.set(why.older, why.newer, mark);
    marked.push([why.by_signal?.text ?? why.similarity, mark === 'duplicate' ? 1 : 0]);
    at += 1;
    result.replaceChildren(...told(marked, settings));
    show().catch((error) => { if (!signal.aborted) panel.replaceChildren(failed(error, show)); });
  }

  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const mark = { 1: 'duplicate', 0: 'different' }[event.key];
    if (mark) panel.querySelector(`[data-mark=${mark}]`)?.click();
  }, { signal });
  load();
}

/** Pairs whose similarity is nearest to the threshold: copies with their originals, and originals of related stories. */
async function around(threshold, signal) {
  const { clusters } = await get(`/v1/clusters?sort=recent&limit=${STORIES}`, signal);
  const found = [];
  for (const { cluster } of clusters) {
    const { members } = await get(`/v1/clusters/${cluster}?limit=${MEMBERS}`, signal);
    for (const one of members) {
      if (one.duplicate_of !== null && one.similarity !== null && one.similarity < 1) found.push([one.duplicate_of, one.id, one.similarity, one.collection]);
    }
  }
  const { clusters: single } = await get('/v1/clusters?sort=newest&size_min=1&limit=500', signal);
  const known = new Map(single.map((one) => [one.cluster, one.representative]));
  const related = single.filter((one) => known.get(one.related) && one.representative).slice(0, RELATED);
  for (const one of related) {
    const why = await get(`/v1/why?${idsOf(known.get(one.related), one.representative, one.collection)}`, signal);
    if (typeof why.similarity === 'number') found.push([why.older, why.newer, why.similarity, one.collection]);
  }
  return found.sort((a, b) => Math.abs(a[2] - threshold) - Math.abs(b[2] - threshold)).slice(0, PAIRS);
}

/**
 * The similarity from which a pair is rather a duplicate than not: where the isotonic regression of the marks (pool
 * adjacent violators) comes to one half.
 */
export function crossing(marked) {
  const blocks = [];
  for (const [s, y] of [...marked].sort((a, b) => a[0] - b[0])) {
    blocks.push({ from: s, to: s, sum: y, n: 1 });
    while (blocks.length > 1 && blocks.at(-2).sum * blocks.at(-1).n >= blocks.at(-1).sum * blocks.at(-2).n) {
      const last = blocks.pop();
      const before = blocks.at(-1);
      Object.assign(before, { to: last.to, sum: before.sum + last.sum, n: before.n + last.n });
    }
  }
  const first = blocks.findIndex((one) => one.sum / one.n >= 0.5);
  if (first < 0) return 1;
  return first === 0 ? blocks[0].from : (blocks[first - 1].to + blocks[first].from) / 2;
}

/** The same with the ends of an interval that has 95 of 100 resamples of the marks. `random` is for tests. */
export function interval(marked, random = Math.random) {
  const found = Array.from({ length: RESAMPLES }, () => crossing(marked.map(() => marked[Math.floor(random() * marked.length)]))).sort((a, b) => a - b);
  return [crossing(marked), found[Math.floor(0.025 * RESAMPLES)], found[Math.ceil(0.975 * RESAMPLES) - 1]];
}

/** What the pairs give that hold for later copies, of all who judge. */
function held({ same, different, threshold, low, high, signals, contradictions }) {
  const said = `${count(same)} pairs hold as one story and ${count(different)} as two`;
  return [
    threshold === null ? '' : el('p', { class: 'quiet held' }, `${said}: a threshold of ${threshold}, between ${low.toFixed(2)} and ${high.toFixed(2)}.`),
    ...Object.entries(signals).filter(([, one]) => one.threshold !== null).map(([name, one]) =>
      el('p', { class: 'quiet held' }, `By ${name}: a threshold of ${one.threshold}, between ${one.low.toFixed(2)} and ${one.high.toFixed(2)}.`)),
    contradictions.length ? el('p', { class: 'verdict not' }, `${count(contradictions.length)} of them contradict others, the last by ${contradictions.at(-1).who}.`) : '',
  ];
}

function told(marked, settings) {
  const yes = marked.filter(([, y]) => y).length;
  const said = `${count(marked.length)} marked, ${percent(yes / marked.length)} of them duplicates.`;
  if (marked.length < MARKS_MIN) return [el('p', { class: 'quiet' }, `${said} A threshold needs ${count(MARKS_MIN)} marks.`)];
  if (!yes || yes === marked.length) return [el('p', { class: 'quiet' }, `${said} A threshold needs marks of both kinds.`)];
  const [threshold, low, high] = interval(marked);
  const setting = `threshold = ${Math.max(0.01, threshold).toFixed(2)}`;
  return [
    el('p', { class: 'verdict is' }, `A threshold of ${threshold.toFixed(2)}, between ${low.toFixed(2)} and ${high.toFixed(2)}.`),
    el('p', { class: 'quiet' }, `${said} Now it is ${score(settings.threshold)}. 95 of 100 resamples of the marks lie between the two ends.`),
    el('p', {}, el('code', { class: 'setting' }, setting), ' ',
      el('button', { type: 'button', class: 'link', onclick: () => download('neardup.toml', 'application/toml', `# From ${marked.length} marks: between ${low.toFixed(2)} and ${high.toFixed(2)}.\n${setting}\n`) }, 'Save as a setting')),
  ];
}
