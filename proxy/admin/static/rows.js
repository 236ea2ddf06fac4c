// @ts-check
/** One exchange as a row, as `exchange_parts.html` writes it. Text is only ever set as text. */

import {NONE, SIGNS, dollars, milliseconds, number, share, short} from './format.js';

/** @typedef {{id: string, at: number, route: string, run: string, model: string, outcome: string, tokens: number | null,
 *   window: number | null, share: number | null, answer: number | null, ms: number, own_ms: number | null,
 *   faithfulness: number | null, status: number, client: string, why: string, usd: number | null, question: string, said: string}} Summary */

const SVG = 'http://www.w3.org/2000/svg';

/** @param {string} tag @param {Record<string, string>} attributes @param {(Node | string)[]} children */
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** @param {string} tag @param {Record<string, string | number>} attributes @param {Node[]} children */
function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/** @param {HTMLTableRowElement} row @param {Summary} one */
export function drawRow(row, one) {
  row.className = 'new';
  row.removeAttribute('aria-hidden');
  row.dataset.id = one.id;
  const cells = /** @type {Record<string, (Node | string)[]>} */ ({
    when: [el('a', {href: `/dashboard/records/${encodeURIComponent(one.id)}`}, moment(one.at))],
    verdict: [badge(one.outcome), ...one.faithfulness === null ? [] : [' ', el('span', {class: 'faithful', title: 'Faithfulness'}, one.faithfulness.toFixed(2))], ...one.why ? [second(el('bdi', {}, one.why))] : []],
    route: [el('bdi', {}, one.route), second(one.run ? el('a', {href: `/dashboard/runs/${encodeURIComponent(one.run)}`, title: one.run}, el('bdi', {}, short(one.run))) : NONE)],
    model: [one.model ? el('bdi', {}, one.model) : text(NONE), ...one.client ? [second(el('bdi', {}, one.client))] : []],
    status: [el('span', {class: one.status >= 400 ? 'code wrong' : 'code'}, one.status ? String(one.status) : NONE)],
    tokens: [text(`${number(one.tokens)} → ${number(one.answer)}`), ...one.share === null ? [] : [second(bar(one.share), el('span', {class: 'share'}, share(one.share)))]],
    usd: [text(dollars(one.usd))],
    ms: [text(milliseconds(one.ms)), ...one.own_ms === null ? [] : [second('ours ', milliseconds(one.own_ms))]],
    words: one.question || one.said ? [el('bdi', {}, one.question), ...one.said ? [second(el('bdi', {}, one.said))] : []] : [text(NONE)],
  });
  for (const cell of row.cells) cell.replaceChildren(...cells[cell.className] ?? []);
}

/** What stands below a cell's first line.
 * @param {(Node | string)[]} children */
const second = (...children) => el('span', {class: 'second'}, ...children);

/** @param {string} words */
const text = words => document.createTextNode(words);

/** @param {number} at */
function moment(at) {
  const iso = new Date(at * 1000).toISOString();
  const title = `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`;
  return el('time', {datetime: iso, title}, el('span', {class: 'date'}), ' ', el('span', {class: 'time'}));
}

/** @param {string} outcome */
function badge(outcome) {
  const known = outcome in SIGNS ? /** @type {keyof typeof SIGNS} */ (outcome) : 'skipped';
  const sign = el('span', {class: 'mark', 'aria-hidden': 'true'}, SIGNS[known]);
  return el('span', {class: `badge ${known}`}, sign, el('span', {class: 'word'}, outcome.replace('_', ' ') || 'none'));
}

/** @param {number} value */
function bar(value) {
  const level = value >= 0.9 ? 'full' : value >= 0.8 ? 'high' : value >= 0.7 ? 'raised' : 'low';
  const marks = [70, 80, 90].map(at => svg('line', {x1: at, x2: at, y1: 0, y2: 10}));
  const track = svg('rect', {width: 100, height: 10, class: 'track'});
  const full = svg('rect', {width: (Math.min(value, 1) * 100).toFixed(1), height: 10, class: 'fill'});
  return svg('svg', {viewBox: '0 0 100 10', preserveAspectRatio: 'none', class: `bar ${level}`, 'aria-hidden': 'true'}, track, full, ...marks);
}
