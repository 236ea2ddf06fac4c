// @ts-check
/** What a page does once it is there: times in the viewer's zone, charts, news. Without it every page still says and does all it has to. */

import {drawPanels, drawUsage} from './charts.js';
import {localise} from './format.js';
import {listen} from './live.js';

for (const element of document.querySelectorAll('time')) localise(element);
keepNames();
tickAll();
giveKeys();
await painted();
const usage = drawUsage();
drawPanels();
listen(usage);
showTarget();

/** The page is there before its charts, which take longer to draw. A page that nobody sees is not painted, and need not wait. */
function painted() {
  return new Promise(resolve => {
    if (document.hidden) return resolve(undefined);
    requestAnimationFrame(() => setTimeout(resolve));
    setTimeout(resolve, 500);
  });
}

/** The name under which a person decides is theirs to keep, in this browser. */
function keepNames() {
  for (const field of document.querySelectorAll('input[data-keep]')) {
    const input = /** @type {HTMLInputElement} */ (field), key = `groundwire:${input.dataset.keep}`;
    try {
      input.value = localStorage.getItem(key) ?? '';
      input.addEventListener('change', () => {
        localStorage.setItem(key, input.value);
        for (const other of document.querySelectorAll('input[data-keep]')) /** @type {HTMLInputElement} */ (other).value = input.value;
      });
    } catch { /* a browser that keeps nothing */ }
  }
}

/** One box ticks all of a page; without a script there is none. */
function tickAll() {
  const every = /** @type {HTMLInputElement | null} */ (document.querySelector('input[data-every]'));
  const label = every?.closest('label');
  if (!every || !label) return;
  label.hidden = false;
  every.addEventListener('change', () => {
    for (const box of document.querySelectorAll(`input[name="${CSS.escape(every.dataset.every ?? '')}"]`)) /** @type {HTMLInputElement} */ (box).checked = every.checked;
  });
}

/** Each button or link that names a key is pressed by it, once a page, while the keyboard is in the content and not in a field. */
function giveKeys() {
  const main = document.getElementById('content');
  if (!main?.querySelector('[data-key]')) return;
  let pressed = false;
  main.addEventListener('keydown', event => {
    const {key, target} = event;
    if (pressed || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target instanceof Element && target.matches('input, select, textarea')) return;
    const found = /** @type {HTMLElement | null} */ (main.querySelector(`[data-key="${CSS.escape(key.toLowerCase())}"]`));
    if (!found) return;
    pressed = true;
    event.preventDefault();
    found.click();
  });
  addEventListener('pageshow', () => { pressed = false; });
  /** @type {HTMLElement | null} */ (main.querySelector('article') ?? main)?.focus({preventScroll: true});
}

/** A link to a finding moves the keyboard there too, and opens what it stands in. */
function showTarget() {
  const go = () => {
    const target = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
    if (target?.tabIndex === -1) target.focus({preventScroll: true});
  };
  addEventListener('hashchange', go);
  go();
}
