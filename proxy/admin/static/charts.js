// @ts-check
/** Draws charts with uPlot into places whose size the style sheet reserves. Each has its figures as a table or in words beside it. */

import {clock, day, dollars, milliseconds, minute, number, share, short, utcMinute} from './format.js';

/** @type {any} */
const uPlot = /** @type {any} */ (globalThis).uPlot;
const MARKS = /** @type {const} */ ([[0.7, '70%'], [0.8, '80%'], [0.9, '90%']]);
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 6], [1, 2]];
const MAX_LINES = 6, MAX_POINTS = 300, DAY_S = 86400, HEADROOM = 1.05;
const FONT = '12px system-ui, sans-serif';
const SVG = 'http://www.w3.org/2000/svg';

/** @typedef {{id: string, at: number, route: string, run: string, share: number | null, tokens: number | null, window: number | null}} Point */

/** @typedef {{starts: number[], unit: string, parts: boolean, series: {name: string, values: (number | null)[]}[]}} Course */

/** @param {string} name */
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** What stands beside a place as JSON.
 * @param {HTMLElement} place @param {any} nothing */
function given(place, nothing) {
  const block = place.nextElementSibling;
  return block instanceof HTMLScriptElement ? JSON.parse(block.textContent || 'null') ?? nothing : nothing;
}

/** @param {number} index */
const lineColour = index => colour(`--line-${index % MAX_LINES + 1}`);

/** @param {number} index */
const filled = index => `color-mix(in srgb, ${lineColour(index)} 35%, ${colour('--card')})`;

/** A value without a neighbour is a dot, which is to be seen.
 * @param {(number | null)[]} values */
const alone = values => !values.some((value, at) => value !== null && at > 0 && values[at - 1] !== null);

/** Draw again when the place's width or the colour scheme changes.
 * @param {HTMLElement} place @param {(width: number, height: number) => any} draw */
function drawn(place, draw) {
  /** @type {any} */
  let plot = null;
  const again = () => {
    const width = place.clientWidth, height = place.clientHeight;
    plot?.destroy();
    plot = width && height ? draw(width, height) : null;
  };
  let seen = 0;
  new ResizeObserver(() => {
    if (place.clientWidth !== seen) {
      seen = place.clientWidth;
      again();
    }
  }).observe(place);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
  return again;
}

/** @param {number} size @param {(value: any) => string} words */
const axis = (size, words) => ({
  font: FONT, size, stroke: colour('--dim'), grid: {stroke: colour('--grid'), width: 1}, ticks: {show: false}, gap: 4,
  values: (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map(words),
});

/** @param {number} span in seconds */
const moments = span => (/** @type {number} */ at) => {
  const then = new Date(at * 1000);
  if (span > 1.5 * DAY_S) return then.getHours() || then.getMinutes() ? minute(then) : day(then).slice(5);
  return span > 600 ? minute(then) : clock(then);
};

/** @param {number[]} xs @returns {[number, number]} */
function range(xs) {
  const first = xs[0], last = xs[xs.length - 1], pad = Math.max((last - first) * 0.02, (60 - last + first) / 2);
  return [first - pad, last + pad];
}

// ---- how full the contexts are ----

/** @returns {{add(points: Point[]): void} | null} */
export function drawUsage() {
  const place = /** @type {HTMLElement | null} */ (document.querySelector('[data-chart=usage]'));
  if (!place || !uPlot) return null;
  /** @type {Map<string, Point>} */
  const known = new Map(pointsOf(given(place, {names: [], rows: []})).map(p => [p.id, p]));
  let by = /** @type {'route' | 'run'} */ (place.dataset.by);
  /** @type {Point | null} */
  let pointed = null;
  const again = drawn(place, (width, height) => plotUsage(place, sorted(known), by, width, height, point => { pointed = point; }));
  place.addEventListener('click', () => { if (pointed) location.assign(`/dashboard/records/${encodeURIComponent(pointed.id)}`); });
  document.getElementById('usage-by')?.addEventListener('change', event => {
    by = /** @type {any} */ (event.target).value;
    again();
  });
  return {
    add(points) {
      const fresh = points.filter(p => p.share !== null && !known.has(p.id));
      for (const point of fresh) known.set(point.id, point);
      if (fresh.length) again();
    },
  };
}

/** @param {{names: string[], rows: any[][]}} table @returns {Point[]} */
const pointsOf = ({names, rows}) => rows.map(row => /** @type {any} */ (Object.fromEntries(names.map((name, at) => [name, row[at]]))));

/** @param {Map<string, Point>} known */
function sorted(known) {
  const all = [...known.values()].sort((a, b) => a.at - b.at);
  for (const old of all.slice(0, -MAX_POINTS)) known.delete(old.id);
  return all.slice(-MAX_POINTS);
}

/** @param {HTMLElement} place @param {Point[]} points @param {'route' | 'run'} by @param {number} width @param {number} height
 * @param {(point: Point | null) => void} onPoint */
function plotUsage(place, points, by, width, height, onPoint) {
  const lines = grouped(points, by);
  legend(place, lines);
  if (!points.length) return plotNothing(place, width, height);
  const xs = points.map(p => p.at);
  const [from, to] = range(xs);
  const series = lines.map(({name, members}, index) => ({
    label: name, stroke: lineColour(index), width: joined(lines[index], by) ? 1.5 : 0, dash: DASHES[index], spanGaps: true, points: {show: true, size: members.length < 80 ? 6 : 4, fill: lineColour(index)},
  }));
  const options = {
    width, height, padding: [10, 12, 0, 0], legend: {show: false}, series: [{}, ...series],
    cursor: {y: false, drag: {x: false, y: false}, points: {size: 9}},
    scales: {x: {time: true, range: () => [from, to]}, y: {range: () => [0, 1]}},
    axes: [{...axis(28, moments(to - from)), space: 70}, {...axis(46, value => share(value)), splits: () => [0, 0.25, 0.5, 0.7, 0.8, 0.9, 1].filter(v => height > 200 || v !== 0.8)}],
    hooks: {
      drawAxes: [marks],
      setCursor: [(/** @type {any} */ plot) => {
        const point = plot.cursor.idx === null || plot.cursor.idx === undefined ? null : points[plot.cursor.idx];
        onPoint(point);
        readout(place, point);
      }],
    },
  };
  const values = lines.map(({members}) => points.map(p => members.includes(p) ? Math.min(p.share ?? 0, 1) : null));
  return new uPlot(options, [xs, ...values], place);
}

/** Only the exchanges of one run are steps of one thing; those of a route have nothing to do with each other.
 * @param {{name: string, only: boolean}} line @param {'route' | 'run'} by */
const joined = (line, by) => by === 'run' && line.only;

/** A range that was dragged over a panel is what the page shows next, whole buckets of it.
 * @param {number[]} starts */
const chosen = starts => (/** @type {any} */ plot) => {
  const {left, width} = plot.select;
  if (width < 5) return;
  const bucket = starts.length > 1 ? starts[1] - starts[0] : 60;
  const from = Math.floor(plot.posToVal(left, 'x') / bucket) * bucket, to = Math.ceil(plot.posToVal(left + width, 'x') / bucket) * bucket;
  location.assign(`/dashboard?since=${utcMinute(from)}&until=${utcMinute(Math.max(to, from + 60))}`);
};

/** @param {HTMLElement} place @param {number} width @param {number} height */
function plotNothing(place, width, height) {
  const now = Date.now() / 1000;
  const options = {
    width, height, padding: [10, 12, 0, 0], legend: {show: false}, series: [{}, {stroke: 'transparent'}], cursor: {show: false},
    scales: {x: {time: true}, y: {range: () => [0, 1]}},
    axes: [{...axis(28, moments(600)), space: 70}, {...axis(46, value => share(value)), splits: () => [0, 0.25, 0.5, 0.7, 0.8, 0.9, 1]}],
    hooks: {drawAxes: [marks]},
  };
  return new uPlot(options, [[now - 600, now], [null, null]], place);
}

/** The lines at which a context is watched, compressed, and compressed hard.
 * @param {any} plot */
function marks(plot) {
  const {ctx, bbox} = plot, ratio = devicePixelRatio || 1;
  ctx.save();
  MARKS.forEach(([at], index) => {
    const y = Math.round(plot.valToPos(at, 'y', true));
    ctx.strokeStyle = colour(['--warn', '--high', '--block'][index]);
    ctx.lineWidth = (index + 1) * 0.6 * ratio;
    ctx.setLineDash([[2, 4], [6, 4], []][index].map(part => part * ratio));
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
  });
  ctx.restore();
}

/** The newest lines by route or run; what is beyond them goes together.
 * @param {Point[]} points @param {'route' | 'run'} by */
function grouped(points, by) {
  /** @type {Map<string, Point[]>} */
  const found = new Map();
  for (const point of points) {
    const name = point[by] || 'no run';
    found.set(name, [...found.get(name) ?? [], point]);
  }
  const lines = [...found].map(([name, members]) => ({name: by === 'run' ? short(name) : name, members, only: members.every(p => p[by])}));
  if (lines.length <= MAX_LINES) return lines;
  lines.sort((a, b) => b.members[b.members.length - 1].at - a.members[a.members.length - 1].at);
  const rest = lines.slice(MAX_LINES - 1).flatMap(line => line.members);
  return [...lines.slice(0, MAX_LINES - 1), {name: `${lines.length - MAX_LINES + 1} others`, members: rest.sort((a, b) => a.at - b.at), only: false}];
}

/** @param {HTMLElement} place @param {{name: string, members: Point[]}[]} lines */
function legend(place, lines) {
  const list = place.parentElement?.querySelector('.legend');
  list?.replaceChildren(...lines.map(({name, members}, index) => entry(name, ` ${share(members[members.length - 1].share)}`, index)));
}

/** The names of a panel's lines, where it has several.
 * @param {HTMLElement} place @param {{name: string}[]} series @param {boolean} barred */
function key(place, series, barred = false) {
  const list = place.parentElement?.querySelector('.key');
  list?.replaceChildren(...series.length > 1 ? series.map(({name}, index) => entry(name, '', index, barred)) : []);
}

/** @param {string} name @param {string} words @param {number} index @param {boolean} barred */
function entry(name, words, index, barred = false) {
  const item = document.createElement('li'), sign = document.createElementNS(SVG, 'svg'), stroke = document.createElementNS(SVG, barred ? 'rect' : 'line');
  const size = barred ? {viewBox: '0 0 12 12', width: '12', height: '12'} : {viewBox: '0 0 26 8', width: '26', height: '8'};
  for (const [key, value] of Object.entries({...size, 'aria-hidden': 'true'})) sign.setAttribute(key, value);
  const drawnAs = barred ? {x: '1', y: '1', width: '10', height: '10', fill: filled(index), stroke: lineColour(index)} : {x1: '0', x2: '26', y1: '4', y2: '4', stroke: lineColour(index), 'stroke-width': '3', 'stroke-dasharray': DASHES[index].join(' ') || 'none'};
  for (const [key, value] of Object.entries(drawnAs)) stroke.setAttribute(key, value);
  sign.append(stroke);
  const said = document.createElement('bdi'), last = document.createElement('span');
  said.textContent = name;
  last.textContent = words;
  item.append(sign, said, last);
  return item;
}

/** @param {HTMLElement} place @param {Point | null} point */
function readout(place, point) {
  const line = place.parentElement?.querySelector('.readout');
  if (!line) return;
  const at = point && new Date(point.at * 1000);
  line.textContent = point && at ? `${day(at)} ${clock(at)} · ${point.route} · ${share(point.share)} · ${number(point.tokens)} of ${number(point.window)} tokens` : '';
}

// ---- a day or a week ----

const UNITS = /** @type {Record<string, (value: number) => string>} */ ({count: number, share, score: (/** @type {number} */ v) => v.toFixed(2), ms: v => v ? milliseconds(v) : '0', usd: v => v ? dollars(v) : '0'});

/** Every panel on the page. */
export function drawPanels() {
  for (const place of document.querySelectorAll('[data-chart=panel]')) drawPanel(/** @type {HTMLElement} */ (place));
}

/** @param {HTMLElement} place */
function drawPanel(place) {
  if (!uPlot) return;
  let course = /** @type {Course} */ (given(place, {starts: [], unit: 'count', parts: false, series: []}));
  const again = drawn(place, (width, height) => plotPanel(place, course, width, height));
  place.addEventListener('groundwire:data', event => {
    course = /** @type {CustomEvent} */ (event).detail;
    again();
  });
}

/** Where each part of a bar ends that stands on those before it; nothing where the part is nothing.
 * @param {(number | null)[][]} parts @returns {(number | null)[][]} */
export const stack = parts => parts.map((values, index) =>
  values.map((value, at) => value ? parts.slice(0, index + 1).reduce((sum, part) => sum + (part[at] ?? 0), 0) : null));

/** @param {HTMLElement} place @param {Course} course @param {number} width @param {number} height */
function plotPanel(place, {starts, unit, parts, series}, width, height) {
  const bare = !series.length || !starts.length;
  place.classList.toggle('bare', bare);
  if (bare) return null;
  const barred = unit === 'count' || unit === 'usd', values = series.map(s => barred ? s.values.map(v => v || null) : s.values);
  const sums = barred && parts ? stack(values) : values;
  const most = Math.max(0, ...sums.flatMap(values => values.map(v => v ?? 0)));
  const top = unit === 'count' ? Math.max(1, most) : unit === 'ms' || unit === 'usd' ? most || 1 : 1;
  const [from, to] = range(starts);
  const bars = barred ? uPlot.paths.bars({size: [0.7, 40]}) : undefined;
  const lines = series.map((s, index) => ({
    label: s.name, stroke: lineColour(index), width: bars ? 1 : 2, dash: bars ? [] : DASHES[index], spanGaps: false, paths: bars,
    fill: bars ? filled(index) : undefined, points: {show: !bars, size: alone(s.values) ? 7 : 4, fill: lineColour(index)},
  }));
  if (barred && parts) [lines, sums].forEach(list => list.reverse());  // the whole bar first, and what is below it over it
  const options = {
    width, height, padding: [6, 4, 0, 0], legend: {show: false}, series: [{}, ...lines],
    cursor: {y: false, points: {show: false}, drag: {x: true, y: false, setScale: false}}, hooks: {setSelect: [chosen(starts)]},
    scales: {x: {time: true, range: () => [from, to]}, y: {range: () => [0, top * HEADROOM]}},
    axes: [{...axis(22, moments(to - from)), space: 60}, {...axis(unit === 'ms' || unit === 'usd' ? 58 : 38, UNITS[unit]), splits: () => [0, top / 2, top].filter(v => unit !== 'count' || Number.isInteger(v))}],
  };
  key(place, series, barred);
  return new uPlot(options, [starts, ...sums], place);
}
