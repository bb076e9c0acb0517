// What a person says about pairs: kept in this browser, downloaded as a truth for `neardup evaluate --truth`.

import { download } from './dom.js';

const KEY = 'neardup-marks';
const MARKS_MAX = 10_000;

function stored() {
  try {
    return new Map(JSON.parse(localStorage.getItem(KEY) ?? '[]'));
  } catch {
    return new Map();
  }
}

const values = stored();
const key = (older, newer) => JSON.stringify([older, newer]);

export const marks = {
  onchange: () => {},

  get size() {
    return values.size;
  },

  /** 'duplicate', 'different', or undefined. */
  of: (older, newer) => values.get(key(older, newer)),

  /** Mark a pair, or take the same mark back. False if there are too many. */
  set(older, newer, mark) {
    const name = key(older, newer);
    if (values.get(name) === mark) values.delete(name);
    else if (values.size >= MARKS_MAX && !values.has(name)) return false;
    else values.set(name, mark);
    localStorage.setItem(KEY, JSON.stringify([...values]));
    this.onchange();
    return true;
  },

  /** JSON Lines: older, newer, and the similarity 1 of a duplicate or 0 of another pair. */
  lines: () => [...values].map(([name, mark]) => {
    const [older, newer] = JSON.parse(name);
    return `${JSON.stringify({ older, newer, similarity: mark === 'duplicate' ? 1 : 0 })}\n`;
  }).join(''),

  download() {
    download('marks.jsonl', 'application/x-ndjson', this.lines());
  },
};
