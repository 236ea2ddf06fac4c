// @ts-check
/** Figures and times in words, as `proxy.language.amounts` writes them for the first load. */

export const NONE = '–';
export const SIGNS = {pass: '✓', unsure: '~', unchecked: '○', warn: '!', block: '✕', error: '?', upstream_error: '↯', skipped: '–', pending: '…', interrupted: '⊘'};

/** @param {number | null | undefined} value */
export function number(value) {
  if (value === null || value === undefined) return NONE;
  const digits = Number.isInteger(value) || Math.abs(value) >= 100 ? 0 : 1;
  return value.toLocaleString('en-US', {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

/** @param {number | null | undefined} value */
export function share(value) {
  if (value === null || value === undefined) return NONE;
  return value > 0 && value < 0.005 ? '<1%' : `${Math.round(value * 100)}%`;
}

/** @param {number | null | undefined} value */
export function milliseconds(value) {
  if (value === null || value === undefined) return NONE;
  if (value >= 1000) return `${(value / 1000).toFixed(1)} s`;
  return value >= 10 ? `${Math.round(value)} ms` : `${value.toFixed(2)} ms`;
}

/** @param {number | null | undefined} value */
export function dollars(value) {
  if (value === null || value === undefined) return NONE;
  if (value === 0 || value >= 1) return `$${value.toLocaleString('en-US', {minimumFractionDigits: 2, maximumFractionDigits: 2})}`;
  return value >= 0.0001 ? `$${value.toFixed(4)}` : '<$0.0001';
}

/** A long id or name by how it begins and how it ends, as `rendering.py` cuts it.
 * @param {string} id */
export const short = id => id.length > 22 ? `${id.slice(0, 12)}…${id.slice(-9)}` : id;

/** @param {number} value */
const two = value => String(value).padStart(2, '0');

/** @param {Date} at */
export const day = at => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

/** @param {Date} at */
export const clock = at => `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;

/** @param {Date} at */
export const minute = at => `${two(at.getHours())}:${two(at.getMinutes())}`;

/** Seconds since the epoch as an address has them: a minute in UTC, with seconds where there are some.
 * @param {number} at */
export const utcMinute = at => new Date(at * 1000).toISOString().slice(0, at % 60 >= 1 ? 19 : 16);

/** A `time` element, in the viewer's zone; its title stays UTC. Same length as the server's words, so nothing moves.
 * @param {HTMLTimeElement} element */
export function localise(element) {
  const at = new Date(element.dateTime);
  if (Number.isNaN(at.getTime())) return;
  const date = element.querySelector('.date'), time = element.querySelector('.time');
  if (date) date.textContent = day(at);
  if (time) time.textContent = clock(at);
}
