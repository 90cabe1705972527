// What people do all day: make a job, see it fire, look into a run, stop it, act on many.
import { BASE, api, check, openPage, same, signIn, unique, until, visit } from "./world.mjs";

/** A job is made by the form, fires while it is watched, and its run is opened and its log read. */
export async function a_job_is_made_by_form_and_seen_firing({ browser, agent }) {
  const page = await openPage(browser);
  const name = `form-${unique()}`;
  await signIn(page);
  await visit(page, "/jobs/new");
  await page.getByLabel("App", { exact: true }).fill("e2e");
  await page.getByLabel("Name", { exact: true }).fill(name);
  await page.getByRole("button", { name: "Every", exact: true }).click();
  await page.getByLabel("Interval").fill("1s");
  await page.getByText("Fires every 1s", { exact: false }).first().waitFor();
  await page.getByLabel("URL").fill(`${agent.url}/?say=tail-me`);
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name, level: 1, exact: true }).waitFor();
  await page.getByRole("tab", { name: "Runs" }).click();
  const rows = page.getByRole("table", { name: "Runs" }).getByRole("row");
  const done = rows.filter({ hasText: "Succeeded" });
  await done.nth(2).waitFor();
  await done.first().getByRole("link").first().click();
  await page.getByText("From due to done").waitFor();
  await page.getByRole("log").getByText("attempt 1", { exact: false }).first().waitFor();
  await page.getByText("succeeded at the first attempt", { exact: false }).waitFor();
  same(page.complaints, [], "complaints");
}

/** A run that takes long is followed, searched in, and stopped. */
export async function a_long_run_is_watched_and_stopped({ browser, agent }) {
  const job = await api("POST", "/jobs", { app: "e2e", name: `long-${unique()}`, schedule: { kind: "manual" }, timeout: "60s", target: { kind: "http", url: `${agent.url}/?ms=50000` } });
  const page = await openPage(browser);
  await signIn(page);
  await visit(page, `/jobs/${job.id}`);
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Run now" }).click();
  await page.getByText("From due to done").waitFor();
  const state = page.locator("main .state").first();
  await until("it runs", async () => (await state.textContent())?.includes("Running"));
  await page.getByRole("table").getByRole("row", { name: /Running/ }).waitFor();
  await page.getByRole("button", { name: "Stop this run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop this run" }).click();
  await until("it is cancelled", async () => (await state.textContent())?.includes("Cancelled"));
  await page.getByRole("button", { name: "Run again" }).waitFor();
  same(page.complaints, [], "complaints");
}

/** How many jobs are made at once. */
const AT_ONCE = 40;

/** Everything that a filter names is stopped: first counted, then done. */
export async function a_filter_is_acted_upon_as_a_whole({ browser, agent }) {
  const count = Number(process.env.PUNCTUAL_BULK ?? 300);
  const tag = `bulk-${unique()}`;
  const make = (index) => api("POST", "/jobs", { app: "e2e-bulk", name: `${tag}-${index}`, tags: [tag], schedule: { kind: "cron", expression: "0 0 1 1 *" }, target: { kind: "http", url: agent.url } });
  let next = 0;
  const walk = async () => {
    while (next < count) await make(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, walk));
  const page = await openPage(browser);
  await signIn(page);
  await visit(page, `/jobs?tag=${tag}`);
  await page.getByRole("table", { name: "Jobs" }).waitFor();
  await page.getByLabel("Select all that are shown").check();
  await page.getByRole("button", { name: "Select all that match" }).click();
  await page.getByRole("region", { name: "Selected jobs" }).getByRole("button", { name: "Stop" }).click();
  const shown = new Intl.NumberFormat("en").format(count);
  await page.getByRole("dialog", { name: `Stop: ${shown} jobs` }).waitFor();
  await page.getByRole("dialog").getByText(`and ${new Intl.NumberFormat("en").format(count - 6)} more`).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: `Stop · ${shown} jobs` }).click();
  await page.getByText(`${shown} of ${shown} done`).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Close", exact: true }).last().click();
  const left = await api("GET", `/jobs?tag=${tag}&enabled=true&limit=1`);
  same(left.items.length, 0, "jobs that still fire");
  same(page.complaints, [], "complaints");
}

/** Filters stand in the address, and the list shows what they name. */
export async function a_search_narrows_the_list_and_stands_in_the_address({ browser, agent }) {
  const name = `needle-${unique()}`;
  await api("POST", "/jobs", { app: "e2e", name, schedule: { kind: "manual" }, target: { kind: "http", url: agent.url } });
  const page = await openPage(browser);
  await signIn(page);
  await visit(page, "/jobs");
  await page.keyboard.press("/");
  await page.keyboard.type(name);
  const rows = page.getByRole("table", { name: "Jobs" }).locator("[data-key]");
  await until("one row is left", async () => (await rows.count()) === 1);
  await until("the address has the filter", () => page.url().endsWith(`q=${name}`));
  await page.reload();
  await until("it is still one row", async () => (await rows.count()) === 1);
  same(page.complaints, [], "complaints");
}

/** A job stopped elsewhere is shown as stopped without a reload. */
export async function what_happens_elsewhere_is_seen_live({ browser, agent }) {
  const job = await api("POST", "/jobs", { app: "e2e", name: `live-${unique()}`, schedule: { kind: "every", interval: "1h" }, target: { kind: "http", url: agent.url } });
  const page = await openPage(browser);
  await signIn(page);
  await visit(page, `/jobs/${job.id}`);
  await page.locator(".live[data-state=live]").waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).waitFor();
  await api("POST", `/jobs/${job.id}/stop`);
  await page.getByRole("button", { name: "Start", exact: true }).waitFor();
  await api("POST", `/jobs/${job.id}/run`, {});
  await page.getByRole("tab", { name: "Runs" }).click();
  await page.getByRole("table", { name: "Runs" }).getByText("Succeeded").first().waitFor();
  await page.getByRole("button", { name: /^Live/ }).click();
  await page.locator(".live[data-state=paused]").waitFor();
  same(page.complaints, [], "complaints");
}

/** An empty list teaches, and says how to get out of it. */
export async function an_empty_list_teaches({ browser }) {
  const page = await openPage(browser);
  await signIn(page);
  await visit(page, "/jobs?q=there-is-no-such-job-anywhere");
  await page.getByText("No job matches").waitFor();
  await page.getByRole("button", { name: "Clear the filter" }).click();
  await page.getByRole("table", { name: "Jobs" }).waitFor();
  await visit(page, "/runs/1");
  await page.getByText("It is not there").waitFor();
  check((await page.locator(".request code").textContent())?.length >= 8, "an error has the number of its request");
  await page.goto(`${BASE}/nowhere`);
  await page.getByText("There is no such page").waitFor();
}

/** What is ahead is listed by when it comes, and what was cancelled is not in it unless that is asked for. */
export async function what_is_ahead_comes_in_order({ browser, agent }) {
  const job = await api("POST", "/jobs", { app: "e2e", name: `ahead-${unique()}`, schedule: { kind: "manual" }, target: { kind: "http", url: agent.url } });
  const hours = [50, 3, 200, 30, 2, 100];
  const runs = [];
  for (const hour of hours) runs.push((await api("POST", "/runs", { job: job.id, at: new Date(Date.now() + hour * 3_600_000).toISOString() })).ids[0]);
  await api("POST", `/runs/${runs[1]}/cancel`);
  const inOrder = (wanted) => wanted.sort((a, b) => a - b).map((hour) => String(runs[hours.indexOf(hour)]));
  const page = await openPage(browser);
  await signIn(page);
  const shown = () => page.getByRole("table", { name: "Runs" }).locator("[data-key]").evaluateAll((rows) => rows.map((row) => row.dataset.key));
  const settles = (wanted) => until(`the runs are ${wanted}`, async () => JSON.stringify(await shown()) === JSON.stringify(wanted));
  await visit(page, `/runs?job=${job.id}&when=ahead`);
  await settles(inOrder([2, 30, 50, 100, 200]));
  await page.getByRole("combobox", { name: "State" }).selectOption({ label: "All states" });
  await settles(inOrder([2, 3, 30, 50, 100, 200]));
  same(page.complaints, [], "complaints");
}

/** One choice of how times are shown is followed by the whole page of a run: timeline, reasons and log. */
export async function all_times_of_a_run_follow_the_choice({ browser, agent }) {
  const job = await api("POST", "/jobs", { app: "e2e", name: `times-${unique()}`, schedule: { kind: "manual" }, target: { kind: "http", url: agent.url } });
  const { run } = await api("POST", `/jobs/${job.id}/run`, {});
  await until("it has ended", async () => (await api("GET", `/runs/${run}`)).state === "succeeded");
  const page = await openPage(browser, { timezoneId: "Asia/Kathmandu" });
  await signIn(page);
  await visit(page, `/runs/${run}`);
  await page.getByRole("log").getByText("attempt 1", { exact: false }).first().waitFor();
  await page.getByText("succeeded at the first attempt", { exact: false }).waitFor();
  const isIn = (sign, other) => async () => {
    const text = await page.locator("main").innerText();
    return text.includes(sign) && !new RegExp(`:\\d\\d(\\.\\d+)?${other}`).test(text);
  };
  await until("all times are those of Kathmandu", isIn("+05:45", "Z"));
  for (let turn = 0; turn < 3; turn += 1) await page.keyboard.press("t");
  await until("all times are UTC", isIn("Z", "\\+05:45"));
  same(page.complaints, [], "complaints");
}

/** The overview says what is due and not started, and which nodes its figures are without. */
export async function the_overview_says_what_waits_and_which_nodes_are_missing({ browser, agent }) {
  await api("POST", "/jobs", { app: "e2e", name: `waits-${unique()}`, schedule: { kind: "manual" }, target: { kind: "http", url: agent.url } });
  const page = await openPage(browser);
  const told = { due: 3, oldest_due_ms: 4_000, missing: [] };
  const add = (address, change) => page.route(address, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: change(await response.json()) });
  });
  await add("**/api/v1/stats", (stats) => ({ ...stats, ...told }));
  await add("**/api/v1/stats/history?**", (history) => ({ ...history, missing: told.missing }));
  await signIn(page);
  const tile = page.getByRole("link", { name: /^Waiting/ });
  await tile.getByText("oldest 4s").waitFor();
  same(await tile.getAttribute("href"), "/runs?state=pending", "where the tile leads");
  same(await page.locator(".tile.is-warn", { hasText: "Waiting" }).count(), 0, "tiles that warn of four seconds");
  same(await page.getByText("Figures without").count(), 0, "missing nodes where all answered");
  Object.assign(told, { due: 150_214, oldest_due_ms: 252_000, missing: ["berlin-3", "berlin-1"] });
  await visit(page, "/");
  await page.locator(".tile.is-warn", { hasText: "150,214" }).getByText("oldest 4m 12s").waitFor();
  await page.getByText("Figures without berlin-1, berlin-3: no answer within a second.").waitFor();
  same(page.complaints, [], "complaints");
}
