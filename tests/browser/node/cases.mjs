// One case a run: `node cases.mjs NAME '{"url": …}'` writes what it found as JSON. Each case is a person's way through the pages.

import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {chromium} from 'playwright-core';

const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update',
  '--disable-sync', '--disable-dev-shm-usage',
];
const DESK = {width: 1280, height: 900}, PHONE = {width: 360, height: 740}, TABLET = {width: 768, height: 1024}, WIDE = {width: 1440, height: 900}, NARROW = {width: 390, height: 844};
const [name, given] = process.argv.slice(2);
const args = JSON.parse(given);
const troubles = [];

/** A page whose dialogs, errors and complaints are collected. */
async function open(browser, options = {}) {
  const context = await browser.newContext({viewport: DESK, timezoneId: 'Europe/Berlin', ...options});
  context.setDefaultTimeout(20000);
  const page = await context.newPage();
  page.on('dialog', dialog => { troubles.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('pageerror', error => troubles.push(`error: ${error.message}`));
  page.on('console', message => { if (message.type() === 'error') troubles.push(`console: ${message.text()}`); });
  page.on('request', request => { if (!request.url().startsWith(args.url)) troubles.push(`request: ${request.url()}`); });
  await page.addInitScript(() => {
    globalThis.moved = 0;
    globalThis.shifts = [];
    new PerformanceObserver(list => {
      for (const entry of list.getEntries()) {
        if (entry.hadRecentInput) continue;
        globalThis.moved += entry.value;
        globalThis.shifts.push(...entry.sources.map(source => `${source.node?.nodeName}.${source.node?.className ?? ''} ${entry.value.toFixed(4)}`));
      }
    }).observe({type: 'layout-shift', buffered: true});
  });
  return page;
}

const shot = (page, file, fullPage = true) => page.screenshot({path: `${args.artefacts}/${file}.png`, fullPage});
const overflow = page => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
const isLive = page => page.waitForSelector('#live[data-state=live]');

async function send() {
  const body = {model: 'gpt-4o', messages: [{role: 'user', content: 'Which planet is the largest, and how many moons does it have?'}]};
  const answer = await fetch(`${args.url}/v1/chat/completions`, {method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify(body)});
  await answer.arrayBuffer();
  return answer.headers.get('x-groundwire-id');
}

const cases = {
  /** Load the first page several times; the median of its first paint, and what moved. */
  async load(browser) {
    const paints = [], moved = [], shifts = [];
    let sizes = {};
    for (let round = 0; round < (args.rounds ?? 5); round++) {
      const page = await open(browser, {viewport: args.phone ? PHONE : DESK, colorScheme: args.dark ? 'dark' : 'light'});
      await page.goto(args.url + (args.path ?? '/dashboard'), {waitUntil: 'load'});
      await isLive(page);
      await page.waitForTimeout(700);
      const seen = await page.evaluate(() => ({
        paint: performance.getEntriesByName('first-contentful-paint')[0].startTime, moved: globalThis.moved, shifts: globalThis.shifts,
        html: performance.getEntriesByType('navigation')[0].decodedBodySize, title: document.title,
        drawn: document.querySelectorAll('.plot canvas').length,
      }));
      paints.push(seen.paint);
      moved.push(seen.moved);
      shifts.push(...seen.shifts);
      sizes = {html: seen.html, title: seen.title, drawn: seen.drawn, overflow: await overflow(page)};
      if (round === 0 && args.shot) await shot(page, args.shot);
      await page.context().close();
    }
    paints.sort((a, b) => a - b);
    return {paint: paints[Math.floor(paints.length / 2)], worst: paints.at(-1), moved: Math.max(...moved), shifts, ...sizes};
  },

  /** The median of five first contentful paints of each path. */
  async paints(browser) {
    const found = [];
    for (const path of args.paths) {
      const paints = [];
      for (let round = 0; round < 5; round++) {
        const page = await open(browser);
        await page.goto(args.url + path, {waitUntil: 'load'});
        paints.push(await page.evaluate(() => new Promise(resolve => {
          new PerformanceObserver(list => { if (list.getEntriesByName('first-contentful-paint').length) resolve(list.getEntriesByName('first-contentful-paint')[0].startTime); })
            .observe({type: 'paint', buffered: true});
        })));
        await page.context().close();
      }
      found.push(paints.sort((a, b) => a - b)[2]);
    }
    return {paints: found};
  },

  /** Who opens the server's address finds where clients point to, and the dashboard. */
  async front(browser) {
    const page = await open(browser, {viewport: PHONE});
    await page.goto(`${args.url}/`);
    const found = {title: await page.title(), bases: await page.locator('main .bases code').allTextContents(), overflow: await overflow(page)};
    await page.click('main a[href="/dashboard"]');
    await isLive(page);
    return {...found, address: page.url()};
  },

  /** Where the parts of bars end, as the page's own script works it out; and how tall the drawn bars of a panel are. */
  async stacked(browser) {
    const page = await open(browser);
    await page.goto(`${args.url}/dashboard`);
    await page.waitForSelector('[data-panel=caught] canvas');
    return page.evaluate(async () => {
      const dashboard = [...document.scripts].find(script => script.src.endsWith('dashboard.js')).src;
      const {stack} = await import(dashboard.replace('dashboard.js', 'charts.js'));
      return {ends: stack([[1, null, 2], [2, 3, 0], [4, null, 1]]), legend: [...document.querySelectorAll('[data-panel=caught] .key li')].map(li => li.textContent)};
    });
  },

  /** An exchange shows up in the list, in the chart and in the figures, without anything moving. */
  async live(browser) {
    const page = await open(browser);
    await page.goto(`${args.url}/dashboard`);
    await isLive(page);
    const started = Date.now(), first = await send();
    await page.waitForSelector(`tr[data-id="${first}"]`);
    const took = Date.now() - started;
    const second = await send();
    await page.waitForSelector(`tr[data-id="${second}"]`);
    const rows = await page.$$eval('#live-rows tr[data-id]', all => all.map(row => row.dataset.id));
    const texts = await page.$$eval(`tr[data-id="${second}"] td`, all => all.map(cell => cell.innerText.trim()));
    await page.waitForFunction(() => document.querySelector('[data-tile=exchanges] .figure').textContent === '2', null, {timeout: 25000});
    await shot(page, 'live');
    const found = {took, rows, first, second, texts, moved: await page.evaluate(() => globalThis.moved), shifts: await page.evaluate(() => globalThis.shifts)};
    found.legend = await page.$$eval('#usage .legend li', all => all.map(item => item.textContent));
    await page.goto(`${args.url}/dashboard/exchanges`);
    await isLive(page);
    await send();
    await page.waitForSelector('a.fresh:not([hidden])');
    found.fresh = await page.textContent('a.fresh');
    await page.click('a.fresh');
    await page.waitForLoadState();  // the list may come after what is above it
    found.listed = await page.$$eval('tr[data-id]', all => all.length);
    return found;
  },

  /** A range dragged over a panel's chart is what the page shows next. */
  async drag(browser) {
    const page = await open(browser);
    await page.goto(`${args.url}/dashboard`);
    await page.waitForSelector('[data-panel=traffic] canvas');
    await page.locator('[data-panel=traffic] .plot').scrollIntoViewIfNeeded();
    const box = await page.locator('[data-panel=traffic] .plot').boundingBox();
    await page.mouse.move(box.x + box.width * 0.4, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.7, box.y + 50, {steps: 5});
    await page.mouse.up();
    await page.waitForURL(/since=/);
    await page.waitForSelector('[data-panel=traffic] canvas');
    const [since, until] = ['since', 'until'].map(name => new URL(page.url()).searchParams.get(name));
    await shot(page, 'dragged');
    return {seconds: (Date.parse(`${until}Z`) - Date.parse(`${since}Z`)) / 1000, shown: await page.textContent('#figures-title')};
  },

  /** A piece of context is rejected with a reason, by mouse. */
  async decide(browser) {
    const page = await open(browser, {javaScriptEnabled: args.script ?? true});
    await page.goto(`${args.url}/dashboard/quarantine`);
    const entries = await page.locator('article.entry').count();
    const entry = page.locator('article.entry').first(), id = await entry.getAttribute('id');
    await entry.locator('input[name=reason]').fill('checked against the almanac');
    await entry.locator('input[name=by]').fill('ann');
    await entry.getByRole('button', {name: 'Reject'}).click();
    await page.waitForURL(/done=rejected/);
    await shot(page, args.script === false ? 'decided-without-script' : 'decided');
    const said = await page.textContent('.notice');
    const left = await page.locator('article.entry').count();
    await page.goto(`${args.url}/dashboard/quarantine?status=rejected`);
    const kept = await page.locator(`[id="${id}"] .decision`).innerText();
    return {entries, left, said, kept, count: await page.locator('nav [data-count=quarantine]').innerText()};
  },

  /** The same with nothing but a keyboard, from the top of the page. */
  async keyboard(browser) {
    const page = await open(browser);
    await page.goto(`${args.url}/dashboard/quarantine`);
    const way = [];
    const here = () => page.evaluate(() => {
      const at = document.activeElement, seen = getComputedStyle(at);
      return {what: (at.matches('input, select, textarea') && at.name) || at.textContent.trim().slice(0, 30), outline: seen.outlineStyle !== 'none' && parseFloat(seen.outlineWidth) >= 2, inside: !!at.closest('article')};
    });
    for (let steps = 0; steps < 60; steps++) {
      await page.keyboard.press('Tab');
      const at = await here();
      way.push(at);
      if (at.inside && at.what === 'reason') await page.keyboard.type('read it aloud');
      if (at.inside && at.what === 'Approve') break;
      if (at.what === 'Skip to the content') {
        await shot(page, 'skip', false);
        await page.keyboard.press('Enter');
        await page.waitForFunction(() => document.activeElement.id === 'content');  // a slow page gets there after the next Tab
      }
    }
    await shot(page, 'keyboard', false);
    await page.keyboard.press('Enter');
    await page.waitForURL(/done=approved/);
    return {way, said: await page.textContent('.notice')};
  },

  /** Findings are reviewed with a key each, the last one taken back; nothing else is pressed. */
  async review(browser) {
    const page = await open(browser, {viewport: args.phone ? PHONE : DESK, colorScheme: args.dark ? 'dark' : 'light'});
    const item = () => page.locator('article input[name=item]').getAttribute('value');
    const here = () => page.evaluate(() => ({tag: document.activeElement.tagName, outline: getComputedStyle(document.activeElement).outlineStyle}));
    const press = async key => {
      const before = page.url();
      await page.keyboard.press(key);
      await page.waitForURL(url => url.href !== before);
      await page.waitForFunction(() => document.activeElement.matches('article, main'));
    };
    await page.goto(`${args.url}/dashboard/review`);
    await page.waitForFunction(() => document.activeElement.matches('article'));
    const seen = [], focus = [];
    const began = Date.now();
    for (const key of args.keys) {
      seen.push(await item());
      focus.push(await here());
      await press(key);
    }
    const took = (Date.now() - began) / args.keys.length;
    const next = await item(), told = await page.textContent('.notice');
    await shot(page, 'reviewed');
    await press('u');
    const again = await item(), undone = await page.textContent('.notice');
    await page.locator('summary').filter({hasText: 'your name'}).click();
    await page.locator('article input[name=note]').pressSequentially('worth a look, rather');  // letters in a field press nothing
    const kept = await page.evaluate(async () => (await (await fetch('/groundwire/v1/feedback?limit=100')).json()).data.map(one => one.said));
    return {seen, focus, next, told, again, undone, took, still: await item(), kept, moved: await page.evaluate(() => globalThis.moved)};
  },

  /** A mark on an answer leads to its evidence. */
  async evidence(browser) {
    const page = await open(browser);
    await page.goto(`${args.url}/dashboard/records/${args.record}`);
    await page.click('a.said.contradicted');
    await page.waitForSelector('li.contradicted:target');
    await shot(page, 'evidence');
    return {
      focused: await page.evaluate(() => document.activeElement.id), told: await page.locator('li.contradicted').innerText(),
      seen: await page.locator('li.contradicted').isVisible(),
    };
  },

  /** Every page, on a desk, on a tablet and on a phone, with all that means harm in it. */
  async harmless(browser) {
    const found = {};
    for (const [size, viewport] of Object.entries({desk: DESK, tablet: TABLET, phone: PHONE})) {
      const page = await open(browser, {viewport});
      for (const path of args.paths) {
        await page.goto(args.url + path, {waitUntil: 'load'});
        await page.evaluate(() => { for (const one of document.querySelectorAll('details')) one.open = true; });
        await page.waitForTimeout(300);
        found[`${size} ${path}`] = {overflow: await overflow(page), foreign: await page.$$eval('main img, main script:not([type="application/json"]), main iframe, main svg[onload]', all => all.length)};
        await shot(page, `harmless-${size}-${Object.keys(found).length}`);
      }
      await page.context().close();
    }
    return found;
  },

  /** axe on every page, in light and then in dark, which is the same page with other colours: there the rules of colours are asked again. */
  async axe(browser) {
    const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
    const rules = {light: {}, dark: {runOnly: ['cat.color']}};
    const found = [];
    for (const viewport of [WIDE, NARROW]) {
      const page = await open(browser, {colorScheme: 'light', viewport, reducedMotion: 'reduce'});
      if (args.key) await signIn(page, args.key);
      for (const [title, path] of Object.entries(args.paths)) {
        await page.goto(args.url + path, {waitUntil: 'load'});
        await page.waitForTimeout(400);
        if (args.unfold) await page.evaluate(() => { for (const one of document.querySelectorAll('details')) one.open = true; });
        await page.evaluate(source);
        for (const colorScheme of ['light', 'dark']) {
          await page.emulateMedia({colorScheme});
          const {violations} = await page.evaluate(asked => globalThis.axe.run(asked), rules[colorScheme]);
          found.push(...violations.map(v => ({page: title, colorScheme, width: viewport.width, id: v.id, impact: v.impact, nodes: v.nodes.slice(0, 3).map(n => `${n.html.slice(0, 160)} ${n.failureSummary}`)})));
          await shot(page, `${title}-${colorScheme}-${viewport === NARROW ? 'phone' : 'desk'}`);
        }
        await page.emulateMedia({colorScheme: 'light'});
      }
      await page.context().close();
    }
    return found;
  },

  /** In with a wrong key, in with the right one, around, and out. */
  async signing(browser) {
    const page = await open(browser);
    await page.goto(`${args.url}/dashboard/exchanges?verdict=pass`);
    await shot(page, 'sign-in', false);
    await page.fill('input[name=key]', 'wrong');
    await page.keyboard.press('Enter');
    const wrong = await page.textContent('.notice');
    await page.fill('input[name=key]', args.key);
    await page.click('button:has-text("Sign in")');
    await page.waitForURL(/exchanges/);
    await isLive(page);
    const address = page.url(), script = await page.evaluate(() => document.cookie);
    await page.click('button:has-text("Sign out")');
    await page.waitForSelector('input[name=key]');
    return {wrong, address, script, after: (await page.goto(`${args.url}/dashboard`)).status()};
  },
};

async function signIn(page, key) {
  await page.goto(`${args.url}/dashboard`);
  await page.fill('input[name=key]', key);
  await page.keyboard.press('Enter');
  await page.waitForSelector('#live');
}

const browser = await chromium.launch({executablePath: args.chromium, args: FLAGS, headless: true});
try {
  const found = await cases[name](browser);
  process.stdout.write(JSON.stringify({found, troubles}));
} finally {
  await browser.close();
}
