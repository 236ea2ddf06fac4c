// @ts-check
/** What is new: exchanges into the chart and the list, counts into the navigation. Asked for only while the page is seen. */

import {drawRow} from './rows.js';
import {localise} from './format.js';

const AGAIN_MS = 2000, FIGURES_MS = 10000;
/** @typedef {import('./rows.js').Summary} Summary */

/** @param {{add(points: any[]): void} | null} usage */
export function listen(usage) {
  const place = /** @type {HTMLElement | null} */ (document.querySelector('[data-live]')), {live: address, after} = place?.dataset ?? {};
  const figures = followFigures();
  if (!address) return;
  const list = followList();
  let last = after ?? '', at = 0, timer = 0;

  const look = async () => {
    clearTimeout(timer);
    if (document.hidden) return;
    try {
      const answer = await fetch(`${address}?at=${at}&after=${encodeURIComponent(last)}`, {headers: {accept: 'application/json'}});
      const told = await answer.json();
      if (answer.ok) tell(told);
      else state('away', told.problem ? 'The store is away' : 'No news: load the page again');
    } catch {
      state('away', 'No connection, trying again');
    }
    timer = setTimeout(look, AGAIN_MS);
  };
  /** @param {{at: number, number: number, exchanges: Summary[], waiting: Record<string, number>}} told */
  const tell = told => {
    state('live', 'Live');
    if (at) counts(told.waiting);  // a page that was just made knows better than a look of a second ago
    at = told.at;
    const added = list(told.exchanges, told.number);
    if (!added.length) return;
    if (told.exchanges[0].id > last) last = told.exchanges[0].id;
    usage?.add(added);
    figures.changed();
  };
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) return look();
    clearTimeout(timer);
    return state('idle', 'Paused');
  });
  addEventListener('pagehide', () => clearTimeout(timer));
  addEventListener('pageshow', event => { if (event.persisted) look(); });
  look();
}

/** @param {string} name @param {string} words */
function state(name, words) {
  const place = document.getElementById('live'), said = place?.querySelector('.said');
  if (!place || !said || said.textContent === words) return;
  place.dataset.state = name;
  said.textContent = words;
}

/** @param {Record<string, number>} told */
function counts(told) {
  for (const [name, count] of Object.entries(told)) {
    for (const place of document.querySelectorAll(`[data-count="${CSS.escape(name)}"]`)) {
      place.textContent = count.toLocaleString('en-US');
      const badge = /** @type {HTMLElement | null} */ (place.closest('.count'));
      if (badge) badge.hidden = !count;
    }
  }
}

/** The overview's rows, or the line that says how many exchanges a list does not show yet.
 * @returns {(exchanges: Summary[], number: number) => Summary[]} those that were not known */
function followList() {
  const rows = document.getElementById('live-rows'), line = /** @type {HTMLElement | null} */ (document.querySelector('a.fresh'));
  /** @type {Set<string>} */
  const known = new Set();
  for (const row of document.querySelectorAll('tr[data-id]')) known.add(/** @type {HTMLElement} */ (row).dataset.id ?? '');
  /** @type {Summary[]} */
  const fresh = [];
  let missed = 0;
  return (exchanges, number) => {
    const added = exchanges.filter(one => !known.has(one.id));
    for (const one of added) known.add(one.id);
    missed += added.length + (added.length ? Math.max(0, number - exchanges.length) : 0);
    if (rows) {
      fresh.push(...added);
      fill(rows, fresh);
    } else if (line && missed) {
      line.textContent = missed === 1 ? '1 new exchange: show it' : `${missed.toLocaleString('en-US')} new exchanges: show them`;
      line.hidden = false;
    }
    return added;
  };
}

/** Put what is new on top of the rows that are there; the table keeps its size.
 * @param {HTMLElement} place @param {Summary[]} fresh */
function fill(place, fresh) {
  const body = place.querySelector('tbody');
  const hint = /** @type {HTMLElement | null} */ (place.querySelector('.hint'));
  if (!body || !fresh.length) return;
  const focused = document.activeElement;
  for (const one of fresh.splice(0).sort((a, b) => a.at - b.at)) {
    const last = [...body.rows].reverse().find(row => row.classList.contains('free') || !row.contains(focused));
    if (!last) return;
    drawRow(last, one);
    for (const element of last.querySelectorAll('time')) localise(element);
    body.prepend(last);
  }
  if (hint) hint.hidden = true;
  const over = /** @type {HTMLElement | null} */ (document.querySelector('#usage .over'));
  if (over && place.querySelector('td.tokens svg')) over.hidden = true;
}

/** The figures of the day or the week: asked for when they were not ready, and again some seconds after something happened. */
function followFigures() {
  const place = /** @type {HTMLElement | null} */ (document.querySelector('[data-figures]'));
  let timer = 0;
  const read = async () => {
    timer = 0;
    if (!place) return;
    try {
      const answer = await fetch(place.dataset.figures ?? '', {headers: {accept: 'application/json'}});
      if (answer.ok) show(await answer.json());
    } catch { /* the next news asks again */ }
  };
  if (place && place.dataset.ready === undefined) read();
  return {changed() { if (place && !timer) timer = setTimeout(read, FIGURES_MS); }};
}

/** @param {any} report */
function show(report) {
  for (const [name, [figure, below]] of Object.entries(/** @type {Record<string, [string, string]>} */ (report.tiles))) {
    const tile = document.querySelector(`[data-tile="${CSS.escape(name)}"]`);
    put(tile, '.figure', figure);
    tile?.classList.toggle('none', figure === '0');
    put(tile, '.below', below);
  }
  for (const panel of report.panels) {
    const card = document.querySelector(`[data-panel="${CSS.escape(panel.name)}"]`);
    put(card, '.figure', panel.headline);
    put(card, '.meaning', panel.meaning);
    put(card, '.detail', panel.detail.join(' · '));
    if (card) /** @type {HTMLElement} */ (card).hidden = !!panel.hint;
    const plot = /** @type {HTMLElement | null} */ (card?.querySelector('[data-chart]') ?? null);
    if (!plot) continue;
    plot.setAttribute('aria-label', panel.label);
    plot.dispatchEvent(new CustomEvent('groundwire:data', {detail: {starts: report.starts, unit: panel.unit, parts: panel.parts, series: panel.series}}));
  }
}

/** @param {Element | null} place @param {string} what @param {string} words */
function put(place, what, words) {
  const found = place?.querySelector(what);
  if (found) found.textContent = words;
}
