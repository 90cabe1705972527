// How smoothly the list of jobs scrolls: `node e2e/scroll.mjs` against a server that has very many, in real Chromium. `PUNCTUAL_URL` and
// `PUNCTUAL_TOKEN` say which. A screen that shows 60 frames a second has 16.7 ms for each.
import { openBrowser, openPage, signIn, until, visit } from "./world.mjs";

/** How long it is scrolled, and how far with each frame. */
const FRAMES = 600;
const STEP = 120;

const browser = await openBrowser();
try {
  const page = await openPage(browser, { viewport: { width: 1440, height: 900 } });
  await signIn(page);
  await visit(page, "/jobs");
  const rows = page.locator("[role=row], tbody tr, .row");
  await until("the list is there", async () => (await rows.count()) > 5);
  const seen = await page.evaluate(
    async ([frames, step]) => {
      const frame = () => new Promise((next) => requestAnimationFrame(next));
      const took = [];
      let before = await frame();
      for (let number = 0; number < frames; number++) {
        window.scrollBy(0, step);
        const now = await frame();
        took.push(now - before);
        before = now;
      }
      took.sort((a, b) => a - b);
      const at = (part) => took[Math.min(took.length - 1, Math.floor(took.length * part))];
      return { scrolled: window.scrollY, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1), elements: document.querySelectorAll("*").length };
    },
    [FRAMES, STEP],
  );
  console.log(`${FRAMES} frames, ${seen.scrolled} px: p50 ${seen.p50.toFixed(1)} ms, p95 ${seen.p95.toFixed(1)} ms, p99 ${seen.p99.toFixed(1)} ms, max ${seen.max.toFixed(1)} ms; ${seen.elements} elements on the page`);
} finally {
  await browser.close();
}
