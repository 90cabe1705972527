// How it looks and feels: every screen in light and dark, on a phone, by keyboard alone, and for those who cannot see it.
import { BASE, api, check, faults, openPage, overflow, same, signIn, unique, until, visit } from "./world.mjs";

async function places(agent) {
  const made = await api("POST", "/jobs", { app: "e2e", name: `look-${unique()}`, tags: ["e2e"], schedule: { kind: "cron", expression: "30 2 * * *", zone: "Europe/Berlin" }, target: { kind: "http", url: `${agent.url}/?status=500` }, retry: { max_attempts: 2, initial_delay: "10ms" } });
  const { run } = await api("POST", `/jobs/${made.id}/run`, { payload: { a: 1 } });
  return ["/", "/jobs", `/jobs/${made.id}`, `/jobs/${made.id}?tab=runs`, `/jobs/${made.id}?tab=revisions`, `/jobs/${made.id}?tab=raw`, `/jobs/${made.id}/edit`, "/jobs/new", "/runs", `/runs/${run}`, "/forecast", "/executors", "/storage", "/settings", "/settings?tab=tokens", "/settings?tab=configuration"];
}

/** Shows every screen and asks axe; nothing may reach over the edge of the window. */
async function look(page, paths) {
  const found = [];
  for (const path of paths) {
    await visit(page, path);
    for (const fault of await faults(page)) found.push(`${path}: ${fault}`);
    const beyond = await overflow(page);
    if (beyond > 0) found.push(`${path} is ${beyond} pixels too wide`);
    if (process.env.PUNCTUAL_SHOTS) await page.screenshot({ path: `${process.env.PUNCTUAL_SHOTS}/${page.look}${path.replace(/[^a-z0-9]+/gi, "-")}.png` });
  }
  same(found, [], "faults");
  same(page.complaints, [], "complaints");
}

export async function every_screen_is_accessible_in_light({ browser, agent }) {
  const page = await openPage(browser, { colorScheme: "light" });
  page.look = "light";
  await page.goto(`${BASE}/`);
  await page.getByLabel("Access token").waitFor();
  same(await faults(page), [], "faults of signing in");
  await signIn(page);
  await look(page, await places(agent));
}

export async function every_screen_is_accessible_in_dark({ browser, agent }) {
  const page = await openPage(browser, { colorScheme: "dark" });
  page.look = "dark";
  await signIn(page);
  const ground = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const sum = ground.match(/[\d.]+/g).slice(0, 3).reduce((all, one) => all + Number(one), 0);
  check(sum < 150, `the ground is dark: ${ground}`);
  await look(page, await places(agent));
}

export async function every_screen_fits_a_phone({ browser, agent }) {
  const page = await openPage(browser, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  page.look = "phone";
  await signIn(page);
  await look(page, await places(agent));
  await page.getByRole("button", { name: "Menu" }).click();
  await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Jobs" }).click();
  await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
}

/** Between a phone and a desk: tablets, halves of screens, small notebooks. */
export async function every_screen_fits_windows_of_every_width({ browser, agent }) {
  await api("POST", "/jobs", { app: "e2e-with-a-long-name", name: `a-job-whose-name-is-long-${unique()}`, tags: ["nightly", "reports", "finance"], schedule: { kind: "cron", expression: "7,37 2-5 1-7 * mon", zone: "America/Argentina/Buenos_Aires" }, target: { kind: "http", url: agent.url } });
  const page = await openPage(browser);
  await signIn(page);
  const found = [];
  for (const path of await places(agent)) {
    await visit(page, path);
    for (const width of [768, 822, 1024, 1075, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      const beyond = await overflow(page);
      if (beyond > 0) found.push(`${path} is ${beyond} pixels too wide at ${width}`);
    }
  }
  same(found, [], "faults");
  same(page.complaints, [], "complaints");
}

export async function the_console_speaks_chinese({ browser, agent }) {
  const page = await openPage(browser, { locale: "zh-CN" });
  page.look = "chinese";
  await page.goto(`${BASE}/`);
  await page.getByRole("button", { name: "登录" }).waitFor();
  await page.locator("#token").fill(process.env.PUNCTUAL_TOKEN);
  await page.getByRole("button", { name: "登录" }).click();
  await page.getByRole("navigation").getByText("任务", { exact: false }).first().waitFor();
  await visit(page, "/jobs");
  await page.getByRole("heading", { level: 1, name: /任务/ }).waitFor();
  same(await page.evaluate(() => document.documentElement.lang), "zh-CN", "the language of the page");
  void agent;
}

/** A job is found, opened, stopped and edited without a mouse. */
export async function everything_is_done_by_keyboard({ browser, agent }) {
  const name = `keys-${unique()}`;
  const made = await api("POST", "/jobs", { app: "e2e", name, schedule: { kind: "every", interval: "1h" }, target: { kind: "http", url: agent.url } });
  const page = await openPage(browser);
  await page.goto(`${BASE}/`);
  await page.getByLabel("Access token").waitFor();
  await page.keyboard.type(process.env.PUNCTUAL_TOKEN);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("j");
  await page.getByRole("heading", { level: 1, name: /Jobs/ }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type(name);
  await until("one row is left", async () => (await page.locator("[data-key]").count()) === 1);
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.locator(".list-row.is-current").waitFor();
  await page.keyboard.press("p");
  await until("it is stopped", async () => !(await api("GET", `/jobs/${made.id}`)).enabled);
  await page.keyboard.press("x");
  await page.getByText("1 job selected").waitFor();
  await page.keyboard.press("e");
  await page.getByRole("heading", { level: 1, name: `Edit ${name}` }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Go to" }).waitFor();
  await page.keyboard.type(name);
  await page.getByRole("option", { name: new RegExp(name) }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  same(page.complaints, [], "complaints");
}

/** The first look comes fast, and nothing moves after it came. */
export async function the_first_look_comes_fast_and_stands_still({ browser }) {
  const page = await openPage(browser);
  await signIn(page);
  await page.addInitScript(() => {
    window.moved = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.moved += entry.value;
    }).observe({ type: "layout-shift", buffered: true });
  });
  await visit(page, "/jobs");
  await page.getByRole("table", { name: "Jobs" }).locator("[data-key]").first().waitFor();
  await page.locator(".live[data-state=live]").waitFor();
  // What moves is told with the frame after it.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity);
  const moved = await page.evaluate(() => window.moved);
  console.log(`    first contentful paint ${Math.round(paint)} ms, layout shift ${moved.toFixed(4)}`);
  check(paint < Number(process.env.PUNCTUAL_PAINT_MS ?? 1_000), `the first paint took ${paint} ms`);
  check(moved < 0.1, `the page moved by ${moved}`);
}
