// Elements and text. Data becomes text nodes only: nothing here, or elsewhere, makes HTML from a string.

const SVG = 'http://www.w3.org/2000/svg';
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
const HIDDEN_IN_TEXT = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const ID_CHARACTERS = 160;
const PREVIEW_CHARACTERS = 240; // what the service sends of a text at most

/** Make an element. `props` are attributes; `on…` are listeners; false and null leave an attribute out. */
export function el(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function svg(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const named = (sign) => `[U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}]`;

/** A text whose invisible signs (controls, overrides of the direction) are named instead of obeyed. */
export const shownText = (text) => text.replace(HIDDEN_IN_TEXT, named);

/** The same, and what makes no difference (soft hyphens, joiners) is named too. */
export const shownLetters = (text) => shownText(text).replace(/\p{DI}/gu, named);

/** An id in the same way, in one line, and cut if it is very long. */
export function shownId(id) {
  const cut = id.length > ID_CHARACTERS ? `${id.slice(0, ID_CHARACTERS)}…` : id;
  return cut.replace(HIDDEN, named).replace(/[\t\n]/g, ' ');
}

/** An id as an element of its own direction. */
export const idNode = (id, extra = '') => el('bdi', { class: `id ${extra}`, title: shownId(id) }, shownId(id));

/** The part of an id that a person recognises: the host of an address, else the id. */
export function source(id) {
  const url = linked(id);
  return url ? shownSource(new URL(url).hostname.replace(/^www\./, '')) : shownId(id);
}

/** A source; a host in IDNA in its script. A label that mixes Latin letters with others stays: it may imitate one. */
export const shownSource = (name) => shownId(name.includes('xn--') ? name.split('.').map(label).join('.') : name);

const [LATIN, FOREIGN] = [/\p{Script=Latin}/u, /[^\p{Script=Latin}\p{Script=Common}\p{Script=Inherited}]/u];

function label(text) {
  const decoded = text.startsWith('xn--') ? punycode(text.slice(4)) : null;
  return decoded === null || (LATIN.test(decoded) && FOREIGN.test(decoded)) ? text : decoded;
}

/** The letters of a label in Punycode (RFC 3492); null if it is none. */
function punycode(text) {
  const cut = text.lastIndexOf('-');
  const letters = cut > 0 ? [...text.slice(0, cut)] : [];
  let [n, at, bias, first] = [128, 0, 72, true];
  for (let i = cut > 0 ? cut + 1 : 0; i < text.length; at += 1) {
    const before = at;
    for (let [weight, k] = [1, 36]; ; k += 36) {
      const digit = 'abcdefghijklmnopqrstuvwxyz0123456789'.indexOf(text[i++]);
      if (digit < 0 || weight > 2 ** 31) return null;
      at += digit * weight;
      const t = Math.min(Math.max(k - bias, 1), 26);
      if (digit < t) break;
      weight *= 36 - t;
    }
    const size = letters.length + 1;
    let delta = Math.floor((at - before) / (first ? 700 : 2));
    delta += Math.floor(delta / size);
    let k = 0;
    for (; delta > 455; k += 36) delta = Math.floor(delta / 35);
    bias = k + Math.floor((36 * delta) / (delta + 38));
    first = false;
    n += Math.floor(at / size);
    at %= size;
    if (n > 0x10ffff) return null;
    letters.splice(at, 0, String.fromCodePoint(n));
  }
  return letters.join('');
}

/** An address that a link may have: of http or https; null for any other text. */
export function linked(text) {
  try {
    const url = new URL(text);
    return /^https?:$/.test(url.protocol) && url.hostname ? url.href : null;
  } catch {
    return null;
  }
}

/** A node as a link to an article, which opens in a tab of its own; the node alone if the text is no address. */
export function toArticle(text, node) {
  const href = linked(text);
  return href ? el('a', { href, target: '_blank', rel: 'noopener noreferrer nofollow' }, node) : node;
}

/** Give the person a file. */
export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(document.createElement('a'), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** The first words of a text, cut behind a word; or what stands for them. */
export function words(preview, id) {
  const text = preview ? shownText(preview).replace(/\s+/g, ' ').trim() : '';
  if (preview && preview.length >= PREVIEW_CHARACTERS) return `${text.replace(/\s\S{0,24}$/, '')} …`;
  return text || shownId(id ?? '');
}

const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const count = (n) => whole.format(n);
export const compact = (n) => (n < 100_000 ? whole.format(n) : short.format(n));
export const rate = (n) => (n >= 100 || n === 0 ? whole.format(Math.round(n)) : n.toFixed(1));
export const percent = (p, digits = 0) => `${(100 * p).toFixed(digits)} %`;
/** A similarity or a threshold with at most four digits, as all outputs have it. */
export const score = (s) => String(Math.round(1e4 * s) / 1e4);

/** A probability in percent; what is not certain never reads 0 or 100. */
export function chance(p) {
  if (p === 1 || p === 0) return percent(p);
  if (p >= 0.9995) return 'over 99.9 %';
  if (p < 0.0005) return 'under 0.1 %';
  return percent(p, p > 0.99 || p < 0.01 ? 1 : 0);
}

export function seconds(s) {
  if (s < 0.01) return [(1000 * s).toFixed(1), 'ms'];
  return s < 1 ? [(1000 * s).toFixed(0), 'ms'] : [s.toFixed(1), 's'];
}

export const clock = (time) => new Date(1000 * time).toLocaleTimeString('en-GB');

/** A moment: the time alone if it is today, else with the day, and the year if it is another one. */
export function moment(time) {
  const date = new Date(1000 * time);
  const now = new Date();
  const year = date.getFullYear() === now.getFullYear() ? undefined : 'numeric';
  const day = date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year });
  const hour = date.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
  return date.toDateString() === now.toDateString() ? hour : `${day}, ${hour}`;
}

/** A span of time in its largest unit. */
export function span(length) {
  for (const [unit, size] of [['day', 86400], ['hour', 3600], ['minute', 60]]) {
    if (length >= size) {
      const n = Math.round(length / size);
      return `${n} ${unit}${n === 1 ? '' : 's'}`;
    }
  }
  const n = Math.round(length);
  return n === 0 ? 'one moment' : `${n} second${n === 1 ? '' : 's'}`;
}

/** The state of a view that has nothing else to show: loading, empty or failed. */
export function notice(kind, title, detail, action) {
  return el('div', { class: `notice ${kind}`, role: kind === 'failed' ? 'alert' : 'status' },
    el('strong', {}, title), detail ? el('p', {}, detail) : null, action ?? null);
}

/** A problem. A view of a deployment has no signatures: to try again would not help. */
export const failed = (error, again) => error.reason === 'needs_window' ? notice('empty', error.title, error.detail)
  : notice('failed', error.title ?? 'The service does not answer', error.detail ?? 'The page tries again by itself.',
    again ? el('button', { type: 'button', onclick: again }, 'Try again') : null);

/** Let a button show what `load` gives at the end of `item`, and hide it again. Its text changes if it has `labels`: closed, open. */
export function expands(button, item, kind, signal, load, labels = null) {
  let shown = null;
  button.setAttribute('aria-expanded', 'false');
  button.addEventListener('click', async () => {
    const opens = !shown;
    button.setAttribute('aria-expanded', String(opens));
    if (labels) button.textContent = labels[Number(opens)];
    if (!opens) {
      shown.remove();
      shown = null;
      return;
    }
    const room = el('div', { class: kind }, notice('loading', 'Comparing'));
    shown = room;
    item.append(room);
    try {
      room.replaceChildren(...await load());
    } catch (error) {
      if (!signal.aborted) room.replaceChildren(failed(error));
    }
  });
}

// Scripts of one language, or of languages that screen readers and fonts treat alike.
const LANGUAGES = [
  ['ja', /[\u3040-\u30ff]/], ['zh', /\p{Script=Han}/u], ['ko', /\p{Script=Hangul}/u], ['ar', /\p{Script=Arabic}/u], ['he', /\p{Script=Hebrew}/u],
  ['el', /\p{Script=Greek}/u], ['th', /\p{Script=Thai}/u], ['hi', /\p{Script=Devanagari}/u], ['ru', /\p{Script=Cyrillic}/u],
];

/** The language of a text by its script; null where the script is that of many languages, as Latin. */
export const language = (text) => LANGUAGES.find(([, letters]) => letters.test(text ?? ''))?.[0] ?? null;

/** Lines of CSV. A value that a spreadsheet would run as a formula begins with a quote, and has one line. */
export function csv(columns, rows) {
  const cell = (value) => {
    const text = typeof value === 'string' ? value.replace(/[\r\n\u0085\u2028\u2029]+/g, ' ') : String(value ?? '');
    const safe = typeof value === 'string' && /^[\s\p{C}]*[=+\-@\t\uff1d\uff0b\uff0d\uff20]/u.test(text) ? `'${text}` : text;
    return /[",]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((line) => `${line.map(cell).join(',')}\r\n`).join('');
}
