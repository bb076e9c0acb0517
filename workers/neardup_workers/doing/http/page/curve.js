// Small pictures: a curve of the last hour, the strip of arrivals, the curve of what is found.

import { svg } from './dom.js';

const WIDTH = 300;

/** A curve with its area. `values` may have nulls, which are gaps; the last value is at the right edge. */
export function curve(values, { points = values.length, height = 56, label = '', top = 0 } = {}) {
  const known = values.filter((value) => value !== null);
  const most = Math.max(top, ...known) || 1;
  const step = WIDTH / Math.max(points - 1, 1);
  const x = (i) => WIDTH - (values.length - 1 - i) * step;
  const y = (value) => height - 2 - (value / most) * (height - 6);
  const runs = [[]];
  values.forEach((value, i) => (value === null ? runs.push([]) : runs.at(-1).push([x(i), y(value)])));
  const parts = runs.filter((run) => run.length).flatMap((run) => {
    if (run.length === 1) run.unshift([run[0][0] - Math.max(step, 2), run[0][1]]);
    const line = run.map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(' L');
    const area = `M${run[0][0].toFixed(1)},${height} L${line} L${run.at(-1)[0].toFixed(1)},${height} Z`;
    return [svg('path', { class: 'area', d: area }), svg('path', { class: 'line', d: `M${line}` })];
  });
  return svg('svg', { class: 'curve', viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
    svg('line', { class: 'base', x1: 0, x2: WIDTH, y1: height - 0.5, y2: height - 0.5 }), parts);
}

/** The mean of neighbouring values, so that a curve of many steps has no noise of single ones. */
export function smooth(values, width) {
  return values.map((value, i) => {
    const near = values.slice(Math.max(0, i - width + 1), i + 1).filter((one) => one !== null);
    return value === null && !near.length ? null : near.reduce((sum, one) => sum + one, 0) / near.length;
  });
}

/** How the times of a story's documents lie: a bar for each span of time. */
export function strip(counts, label) {
  const most = Math.max(...counts, 1);
  const width = WIDTH / counts.length;
  const bars = counts.map((n, i) => {
    const height = n ? Math.max(3, Math.sqrt(n / most) * 28) : 1;
    return svg('rect', { class: n ? 'bar-on' : 'bar-off', x: (i * width).toFixed(2), y: (28 - height).toFixed(2), width: (width - 1.6).toFixed(2), height: height.toFixed(2), rx: 1 });
  });
  return svg('svg', { class: 'strip', viewBox: `0 0 ${WIDTH} 28`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label }, bars);
}

/** The S-curve: how likely a pair of each similarity is found, with a mark. */
export function found(points, { at = null, chance = null, threshold = null, label = '' } = {}) {
  const height = 110;
  const x = (s) => 6 + s * (WIDTH - 12);
  const y = (p) => height - 18 - p * (height - 26);
  const line = points.map(([s, p]) => `${x(s).toFixed(1)},${y(p).toFixed(1)}`).join(' L');
  const mark = (s, kind) => {
    const near = points.reduce((best, point) => (Math.abs(point[0] - s) < Math.abs(best[0] - s) ? point : best));
    return svg('circle', { class: kind, cx: x(s), cy: y(chance ?? near[1]), r: 5 });
  };
  return svg('svg', { class: 'found', viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': label },
    svg('line', { class: 'base', x1: 6, x2: WIDTH - 6, y1: y(0), y2: y(0) }),
    threshold === null ? null : svg('line', { class: 'threshold', x1: x(threshold), x2: x(threshold), y1: y(1), y2: y(0) }),
    svg('path', { class: 'line', d: `M${line}` }),
    at === null ? null : mark(at, 'at'),
    [0, 0.5, 1].map((s) => svg('text', { x: x(s), y: height - 4, 'text-anchor': s === 0 ? 'start' : s === 1 ? 'end' : 'middle' }, String(s))));
}
