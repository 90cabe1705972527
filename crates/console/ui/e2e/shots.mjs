// Pictures of every screen, light and dark, for the documentation: `node e2e/shots.mjs FOLDER` against a server that has
// something to show, such as `punctual demo`. `PUNCTUAL_URL` and `PUNCTUAL_TOKEN` say which.
import { mkdirSync } from "node:fs";
import { api, openBrowser, openPage, signIn, until, visit } from "./world.mjs";

const folder = process.argv[2];
if (!folder) throw new Error("say the folder that the pictures go to");
mkdirSync(folder, { recursive: true });

/** Where the person in front of the screen is: neither in UTC nor where most jobs are, so that all three zones are seen. */
const HERE = "America/Toronto";

/** A job with history, and runs worth a look. */
async function places() {
  const { items } = await api("GET", "/jobs?limit=200");
  const busy = [...items].sort((a, b) => (b.recent ?? []).length - (a.recent ?? []).length);
  const cron = busy.find((job) => job.schedule.kind === "cron" && job.schedule.zone && ![HERE, "UTC"].includes(job.schedule.zone)) ?? busy[0];
  const retried = (await api("GET", "/runs?state=failed&limit=100")).items.find((run) => run.attempts.length > 1);
  const run = retried ?? (await api("GET", "/runs?state=succeeded&limit=1")).items[0];
  return [
    ["overview", "/"], ["jobs", "/jobs"], ["job", `/jobs/${cron.id}`], ["revisions", `/jobs/${cron.id}?tab=revisions`], ["editor", `/jobs/${cron.id}/edit`],
    ["runs", "/runs"], ["run", `/runs/${run.id}`], ["forecast", "/forecast"], ["executors", "/executors"], ["storage", "/storage"],
    ["tokens", "/settings?tab=tokens"], ["configuration", "/settings?tab=configuration"],
  ];
}

const browser = await openBrowser();
try {
  const shown = await places();
  for (const colorScheme of ["light", "dark"]) {
    const page = await openPage(browser, { colorScheme, timezoneId: HERE, viewport: { width: 1440, height: 900 } });
    await signIn(page);
    for (const [name, path] of shown) {
      await visit(page, path);
      await until("it is live", async () => (await page.locator(".live[data-state=live]").count()) === 1);
      await page.screenshot({ path: `${folder}/${name}-${colorScheme}.png` });
    }
  }
  const phone = await openPage(browser, { timezoneId: HERE, viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true });
  await signIn(phone);
  for (const [name, path] of shown.filter(([one]) => one === "overview" || one === "run")) {
    await visit(phone, path);
    await phone.screenshot({ path: `${folder}/${name}-phone.png` });
  }
} finally {
  await browser.close();
}
