// Pictures of the pages: `node pictures.mjs '{"url": …}'`. Those to be shown are a window's height; those to be looked at are whole pages.

import {chromium} from 'playwright-core';

const FLAGS = ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'];
const args = JSON.parse(process.argv[2]);
const browser = await chromium.launch({executablePath: args.chromium, args: FLAGS, headless: true});

async function take(colorScheme, viewport, paths, name, fullPage) {
  const context = await browser.newContext({viewport, colorScheme, reducedMotion: 'reduce', timezoneId: 'UTC', deviceScaleFactor: 1});
  const page = await context.newPage();
  for (const [title, path] of Object.entries(paths)) {
    await page.goto(path.startsWith('/') ? args.url + path : path, {waitUntil: 'load'});
    await page.waitForTimeout(900);
    await page.screenshot({path: name(title), fullPage});
  }
  await context.close();
}

try {
  for (const scheme of ['light', 'dark']) {
    await take(scheme, {width: 1280, height: 860}, args.shown, title => `${args.pictures}/${title}-${scheme}.png`, false);
    for (const width of [1440, 390]) await take(scheme, {width, height: 900}, args.all, title => `${args.pages}/${title}-${scheme}-${width}.png`, true);
  }
} finally {
  await browser.close();
}
