// Pair: two documents side by side, why they are a pair or not, and what a person says about it.

import { get, post } from './api.js';
import { found } from './curve.js';
import { chance, count, el, failed, idNode, moment, notice, percent, score, shownId, shownLetters, toArticle } from './dom.js';
import { marks } from './marks.js';

// Characters of passages that are shown at first, and that a press on the button adds.
const CHARACTERS = 30_000;
const PASSAGES = 4_000;

/** The parameters of two ids; those of a collection name it. */
// What says that two documents tell one story, if their texts do not.
export const SAME = {
  title: 'the same title', vector: 'the same story in other words', picture: 'the same picture', record: 'the same record',
};

export const idsOf = (a, b, collection) => new URLSearchParams({ a, b, ...(collection ? { collection } : {}) });

export const pairAddress = (a, b, collection) => `#/pair?${idsOf(a, b, collection)}`;

export function pair(view, { query, signal, ready }) {
  const [a, b, collection] = ['a', 'b', 'collection'].map((name) => query.get(name) ?? '');
  const field = (name, value, text) => el('label', {}, text, el('input', { name, value, autocomplete: 'off', spellcheck: 'false', dir: 'auto', required: true }));
  const form = el('form', { class: 'two', onsubmit: (event) => {
    event.preventDefault();
    const values = new FormData(form);
    const address = pairAddress(values.get('a'), values.get('b'), collection);
    if (location.hash === address) load();
    else location.hash = address;
  } }, field('a', a, 'One id'), field('b', b, 'Another id'), el('button', { type: 'submit', class: 'primary' }, 'Compare'));
  const panel = el('div', { class: 'pair' });
  view.append(el('h1', {}, 'Pair'), form, panel);

  async function load() {
    panel.replaceChildren(notice('loading', 'Comparing'));
    try {
      const { settings } = await get('/v1/figures', signal);
      const why = settings.compares ? await get(`/v1/why?${idsOf(a, b, collection)}`, signal) : await published(a, b, signal);
      if (why === null) panel.replaceChildren(notice('empty', 'The deployment has found no such pair', 'They are too different, or the pair was made with a copy of one of them.'));
      else panel.replaceChildren(...explained(why, settings), marking(why, settings.compares, collection, signal), settings.compares ? differences(why, settings.keep_texts) : '');
    } catch (error) {
      if (!signal.aborted) panel.replaceChildren(failed(error, load));
    }
    ready();
  }
  if (a && b) load();
  else {
    panel.append(notice('empty', 'Name two documents', 'The page shows what they share, in what they differ, and why they are a pair or why not.'));
    ready();
  }
}

/** A pair that a deployment has found, which knows no more of it; null if there is none. */
async function published(a, b, signal) {
  const { pairs } = await get(`/v1/documents?near=true&${new URLSearchParams({ id: a })}`, signal);
  const pair = pairs.find((one) => one.id === b);
  return pair ? { reason: 'pair', older: a, newer: b, similarity: pair.similarity, buckets: pair.buckets } : null;
}

/** The reason in a sentence, and the figures of the pair. */
export function explained(why, settings) {
  const is = ['pair', 'copy', 'decided', 'version'].includes(why.reason);
  const about = why.about ? [' ', idNode(why.about)] : [];
  const sentence = why.reason === 'pair' && why.signal ? `They are of one story: ${SAME[why.signal]}.`
    : why.reason === 'pair' ? 'They are a pair.'
    : why.reason === 'copy' ? 'They are near. A copy of one of them makes the pair instead:'
    : why.reason === 'decided' ? 'They are near: the decision compared the two directly.'
    : why.reason === 'version' ? 'They are of one story: the decision compared another version of the first one.' : `They are no pair: ${why.sentence}.`;
  const parts = [el('p', { class: `verdict ${is ? 'is' : 'not'}` }, sentence, about)];
  if (why.judged) parts.push(el('p', { class: 'judged' }, `They tell ${why.judged.did === 'apart' ? 'two stories' : 'one story'}: ${why.judged.who === 'anyone' ? 'a person' : why.judged.who} said so, `, moment(why.judged.time), '. That holds.'));
  if (why.similarity !== null && why.similarity !== undefined) {
    const fact = (name, value, line) => el('div', {}, el('dt', {}, name), el('dd', {}, value, line ? el('small', {}, line) : null));
    const known = why.pair_probability !== null && why.pair_probability !== undefined;
    parts.push(el('div', { class: 'facts' }, el('dl', {},
      fact('Similarity', score(why.similarity), `a pair from ${score(settings.score_min)}`),
      why.shared ? fact('Shared', percent(why.shared.newer_fraction), `of the later text, ${percent(why.shared.older_fraction)} of the first`) : null,
      typeof why.buckets === 'number' ? fact('Common bands', count(why.buckets), settings.bands ? `of ${count(settings.bands)}` : '') : null,
      why.novelty ? fact('Said before', score(why.novelty.said), why.novelty.said_min ? `of the later text; a copy has at least ${score(why.novelty.said_min)}` : 'of the numbers of the later text') : null,
      why.novelty ? fact('New numbers', count(why.novelty.new_numbers), 'a copy has none') : null,
      known ? fact('Found', chance(why.pair_probability), 'of pairs this similar') : null),
    known && settings.curve.length ? el('figure', {}, found(settings.curve, { at: why.similarity, chance: why.pair_probability, threshold: settings.threshold, label: `Pairs of similarity ${score(why.similarity)} are found with ${chance(why.pair_probability)}` }),
      el('figcaption', {}, 'How likely a pair of each similarity is found')) : null));
  }
  if (why.novelty?.new?.length) {
    parts.push(el('p', { class: 'new' }, 'New in the later text: ', why.novelty.new.flatMap((word) => [el('strong', { dir: 'auto' }, word.text), ' '])));
  }
  return parts;
}

function marking(why, compares, collection, signal) {
  const said = el('span', { role: 'status', class: 'said' });
  const buttons = [['duplicate', 'Duplicate'], ['different', 'Not a duplicate']].map(([mark, text]) => el('button', { type: 'button', 'data-mark': mark, onclick: () => {
    const done = marks.set(why.older, why.newer, mark);
    shown();
    said.textContent = !done ? 'There are too many marks: download them first.' : marks.of(why.older, why.newer) ? 'Kept in this browser.' : 'Taken back.';
  } }, text));
  const hold = el('button', { type: 'button', class: 'link', onclick: async () => {
    const say = marks.of(why.older, why.newer) === 'duplicate' ? 'together' : 'apart';
    try {
      const { id, cluster } = await post(`/v1/${say}?${idsOf(why.older, why.newer, collection)}${hold.dataset.replaces ? '&replace=true' : ''}`, {}, signal);
      shown();
      said.replaceChildren(`${shownId(id)} is of `, el('a', { href: `#/story/${cluster}` }, 'this story'), ', and so are later copies.');
    } catch (error) {
      if (signal.aborted) return;
      said.textContent = [error.title, error.detail].filter(Boolean).join(' ') || 'The service does not answer.';
      if (error.reason === 'contradicts') [hold.dataset.replaces, hold.textContent] = ['true', 'Replace what was said'];
    }
  } });
  const shown = () => {
    hold.textContent = 'Make it hold for later copies';
    delete hold.dataset.replaces;
    for (const button of buttons) button.setAttribute('aria-pressed', String(marks.of(why.older, why.newer) === button.dataset.mark));
    hold.hidden = !compares || !marks.of(why.older, why.newer);
  };
  shown();
  const hint = 'Marks become a file for neardup evaluate --truth.';
  return el('div', { class: 'marking', role: 'group', 'aria-label': 'What do you say?' }, el('span', {}, 'What do you say?'), buttons, hold, said, el('small', {}, hint));
}

/** Two texts side by side: what only one of them has is marked, or of passages what both have. */
export function differences(why, kept, names = {}) {
  if (!why.passages?.length) {
    return notice('empty', 'No texts to compare', kept ? 'The text of one of them is not stored.' : 'This service stores no texts: start it with --keep-texts.');
  }
  const panel = el('div', {});
  let limit = CHARACTERS;
  const draw = () => {
    const sides = ['first', 'second'].map((kind) => side(why, kind, limit, names));
    const cut = sides.some((one) => one.cut);
    panel.replaceChildren(el('div', { class: 'sides' }, sides.map((one) => one.node)),
      cut ? el('button', { type: 'button', class: 'further', onclick: () => { limit *= 4; draw(); } }, 'Show more of the texts') : '');
  };
  draw();
  return panel;
}

function side(why, kind, limit, names) {
  const own = why.sides ? why.sides[kind === 'first' ? 0 : 1] : why.passages.filter((passage) => passage.kind === 'both' || passage.kind === kind);
  const label = kind === 'first' ? 'Text that arrived first' : 'Text that arrived later';
  const text = el('p', { class: 'text', dir: 'auto', tabindex: 0, role: 'region', 'aria-label': label });
  let left = limit;
  let shown = 0;
  for (const passage of own) {
    if (left <= 0 || shown === PASSAGES) break;
    const part = shownLetters(passage.text.slice(0, left));
    text.append(tagOf(passage, kind) ? el(tagOf(passage, kind), titled(passage), part) : part);
    left -= passage.text.length;
    shown += 1;
  }
  const length = (some) => some.reduce((sum, passage) => sum + passage.text.length, 0);
  const all = length(own);
  const tagged = length(own.filter((passage) => tagOf(passage, kind)));
  const id = kind === 'first' ? why.older : why.newer;
  const where = why.sides ? 'in both' : 'only here';
  const line = tagged ? `${percent(tagged / all, tagged / all < 0.1 ? 1 : 0)} ${where}` : `nothing ${where}`;
  return { cut: left < 0 || shown < own.length, node: el('section', { class: 'side' },
    el('h2', {}, el('span', { class: 'role' }, kind === 'first' ? 'Arrived first' : 'Arrived later'), names[id] ? el('span', {}, names[id]) : toArticle(id, idNode(id))),
    el('p', { class: 'quiet' }, `${count(all)} characters, ${line}`), text) };
}

/** How a piece of a text is marked: a passage of both, or what one text alone has; empty for other pieces. */
function tagOf(piece, kind) {
  if ('kind' in piece) return piece.kind === 'both' ? '' : kind === 'first' ? 'del' : 'ins';
  return piece.passage === null ? '' : 'mark';
}

const titled = (piece) => ('kind' in piece ? {} : { title: `Passage ${piece.passage + 1}, ${piece.exact ? 'letter by letter' : 'about'}` });
