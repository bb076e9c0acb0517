// Ask: paste a text, see what is near and why, or why nothing is.

import { get, own, post } from './api.js';
import { found } from './curve.js';
import { chance, count, el, expands, failed, idNode, language, moment, notice, percent, score, shownSource, source, words } from './dom.js';
import { differences, explained } from './pair.js';

const NEAREST = 10;
const MINE = 'Your text';
// A field with millions of characters blocks the browser for minutes: of a longer text only the beginning stands in it.
const FIELD_CHARACTERS = 100_000;
const SHOWN_CHARACTERS = 2_000;
const SEARCHED_CHARACTERS = 200; // what a search takes
const SENTENCE_CHARACTERS = 600; // of a longer text the check says more

// The text stays when the person looks at another view and comes back.
let typed = '';
let pasted = null; // the whole of a long text

export function ask(view, { signal, ready }) {
  const text = el('textarea', { name: 'text', rows: 7, dir: 'auto', placeholder: 'Paste an article, a page, a message', required: true, 'aria-label': 'Text' });
  const other = el('input', { name: 'other', autocomplete: 'off', spellcheck: 'false', dir: 'auto', placeholder: 'id of a document that you expect (optional)', 'aria-label': 'Id of a document that you expect' });
  const collection = el('input', { name: 'collection', dir: 'auto', hidden: Boolean(own.collections) || !own.field, placeholder: 'collection to look in (empty: documents of none)', 'aria-label': 'Collection to look in' });
  const answers = el('div', { class: 'answers', 'aria-live': 'polite' });
  const long = el('p', { class: 'quiet', role: 'status', hidden: true });
  const field = () => {
    text.value = pasted === null ? typed : `${pasted.slice(0, SHOWN_CHARACTERS)} …`;
    text.readOnly = pasted !== null;
    long.hidden = pasted === null;
    if (pasted === null) return;
    const clear = el('button', { type: 'button', class: 'link', onclick: () => { pasted = null; typed = ''; field(); text.focus(); } }, 'Clear');
    long.replaceChildren(`${count(pasted.length)} characters; the field shows the beginning. `, clear);
  };
  field();
  text.addEventListener('input', () => { typed = text.value; });
  text.addEventListener('paste', (event) => {
    const given = event.clipboardData.getData('text/plain');
    if (given.length <= FIELD_CHARACTERS) return;
    event.preventDefault();
    pasted = given;
    field();
  });
  const look = el('button', { type: 'submit', class: 'primary' }, 'Look');
  const form = el('form', { class: 'ask', onsubmit: (event) => {
    event.preventDefault();
    answer(pasted ?? text.value, other.value.trim());
  } }, text, long, el('div', { class: 'row' }, other, collection, look));
  view.append(el('h1', {}, 'Ask'), el('p', { class: 'quiet' }, 'Is something like this in the window? Looking adds nothing.'), form, answers);
  ready();

  async function answer(asked, expected) {
    answers.replaceChildren(notice('loading', 'Looking'));
    look.disabled = true;
    try {
      const document = { id: `${MINE} ${crypto.getRandomValues(new Uint32Array(2)).join('-')}`, text: asked };
      const name = own.collection ?? collection.value.trim();
      if (own.field && name) document[own.field] = name;
      const { settings } = await get('/v1/figures', signal);
      const looked = await lookedUp(document, signal);
      const said = await wordsOf(asked, name, signal);
      const why = expected ? await whyNear(document, expected, signal) : null;
      answers.replaceChildren(...near(document, looked, settings, signal), ...said, ...(why ? wanted(document, why, settings) : []));
    } catch (error) {
      if (!signal.aborted) answers.replaceChildren(failed(error, () => answer(asked, expected)));
    }
    look.disabled = false;
  }
}

/** The documents that have the words of a headline, or of a sentence: too short to be near an article. */
async function wordsOf(asked, collection, signal) {
  const sentence = asked.trim();
  if (!sentence || sentence.length > SENTENCE_CHARACTERS) return [];
  const q = sentence.length > SEARCHED_CHARACTERS ? sentence.slice(0, SEARCHED_CHARACTERS).replace(/\s+\S*$/, '') : sentence;
  const { documents } = await get(`/v1/documents?${new URLSearchParams({ q, limit: NEAREST, ...(collection ? { collection } : {}) })}`, signal);
  if (!documents.length) return [];
  return [el('h2', {}, 'Documents with these words'), el('ol', { class: 'near' }, documents.map((one) => el('li', {},
    el('div', { class: 'line' }, el('a', { href: `#/story/${one.cluster}`, dir: 'auto', lang: language(one.title) }, words(one.title, one.id)), ' ',
      el('bdi', { class: 'source' }, one.source ? shownSource(one.source) : source(one.id)), el('time', {}, moment(one.date ?? one.time))))))];
}

/** Why a document and an id of its collection are near, or not. */
function whyNear(document, b, signal) {
  const collection = document[own.field];
  return post(`/v1/why?${new URLSearchParams({ b, ...(collection ? { collection } : {}) })}`, document, signal);
}

/** The pairs of a document and its neighbours; a scheme that cannot rank has pairs alone. */
async function lookedUp(document, signal) {
  try {
    return await post(`/v1/check?add=false&nearest=${NEAREST}`, document, signal);
  } catch (error) {
    if (error.reason !== 'cannot_rank') throw error;
    return { ...(await post('/v1/check?add=false', document, signal)), nearest: [] };
  }
}

function near(document, { pairs, nearest }, settings, signal) {
  // Of a content that has copies in the window, a pair names one. Neighbours name the others, so both count.
  const ids = new Set(pairs.map((pair) => pair.id));
  const others = nearest.filter((one) => !ids.has(one.id));
  const near_ = [...pairs, ...others.filter((one) => one.similarity >= settings.score_min)].sort((a, b) => b.similarity - a.similarity);
  const below = others.filter((one) => one.similarity < settings.score_min);
  const n = near_.length;
  const sentence = n ? `It is near ${n === 1 ? 'one document' : `${count(n)}${nearest.length === NEAREST && !below.length ? ' documents or more' : ' documents'}`}.` : 'Nothing in the window is near it.';
  const parts = [el('p', { class: `verdict ${n ? 'is' : 'not'}` }, sentence)];
  if (n) parts.push(list(document, near_.slice(0, 50), settings, signal));
  if (n > 50) parts.push(el('p', { class: 'quiet' }, `The 50 nearest of ${count(n)} are shown.`));
  if (!n) parts.push(nothing(below, settings));
  if (below.length) parts.push(el('h2', {}, n ? 'Less similar' : 'The most similar, all below the least score'), list(document, below, settings, signal));
  return parts;
}

/** Why nothing is near: what would have been found, and how surely. */
function nothing(below, settings) {
  if (settings.chances.length < 2) return el('p', { class: 'quiet' }, 'No document shares enough with it.');
  const [[t, atThreshold], [beyond, atBeyond]] = settings.chances;
  const best = below[0];
  return el('div', { class: 'facts' },
    el('p', {}, `A document of similarity ${score(t)} would have been found with a probability of ${chance(atThreshold)}, one of ${score(beyond)} with ${chance(atBeyond)}. `,
      best ? `The most similar one that was met has ${score(best.similarity)}; a pair needs ${score(settings.score_min)}.` : 'No document shares a band with it.'),
    el('figure', {}, found(settings.curve, { at: best ? best.similarity : null, threshold: t, label: 'How likely a document of each similarity is found' }),
      el('figcaption', {}, 'How likely a document of each similarity is found')));
}

function list(document, found_, settings, signal) {
  return el('ol', { class: 'near' }, found_.map((one) => {
    const open = el('button', { type: 'button' }, 'See why');
    const item = el('li', {}, el('div', { class: 'line' }, idNode(one.id),
      el('span', { class: 'meter', role: 'img', 'aria-label': `similarity ${score(one.similarity)}` }, meter(one.similarity)),
      el('span', { class: 'score' }, score(one.similarity)), open));
    expands(open, item, 'why', signal, async () => {
      const why = await whyNear(document, one.id, signal);
      return [...explained(why, settings), differences(why, settings.keep_texts, { [document.id]: MINE })];
    }, ['See why', 'Close']);
    return item;
  }));
}

function meter(similarity) {
  const bar = el('span', {});
  bar.style.inlineSize = percent(similarity, 1).replace(' ', '');
  return bar;
}

function wanted(document, why, settings) {
  return [el('h2', {}, 'And the document that you expect'), ...explained(why, settings), differences(why, settings.keep_texts, { [document.id]: MINE })];
}
