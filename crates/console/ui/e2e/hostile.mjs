// Text from outside is text: markup, scripts, marks that turn a line round, letters of four bytes, and very much of it. And
// a server that is away, or has become another, breaks no screen.
import { api, check, openPage, overflow, same, signIn, startWire, unique, until, visit } from "./world.mjs";

const MARKUP = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
const TURNED = "\u202Egnp.exe\u2066 \u{1D11E}\u{1F600}";

/** Whatever a job, an agent, an app, a token and a key say is shown as it is, and does nothing. */
export async function hostile_text_is_shown_as_text({ browser, agent }) {
  const name = `${MARKUP.slice(0, 40)} ${TURNED.replace(/[\u202E\u2066]/g, "")} ${unique()}`;
  const description = `${MARKUP} ${TURNED} ${"long ".repeat(200)}`;
  const said = encodeURIComponent(`${MARKUP}\u001b[31mred\u001b[0m\u001b]0;owned\u0007 ${"w".repeat(2_000)}`);
  const made = await api("POST", "/jobs", { app: "e2e-hostile", name, description, tags: ["<b>bold</b>", "\u{1F600}"], schedule: { kind: "manual" }, retry: { max_attempts: 1 }, target: { kind: "http", url: `${agent.url}/?status=400&say=${said}`, headers: { "X-Odd": "<i>odd</i>" } } });
  const { run } = await api("POST", `/jobs/${made.id}/run`, { payload: { text: `${MARKUP}${TURNED}` } });
  await api("POST", "/runs", { job: made.id, key: `${MARKUP}${unique()}`, payload: MARKUP });
  await api("PUT", "/apps/e2e-hostile", { title: `${MARKUP} ${"t".repeat(80)}`, addresses: [`http://127.0.0.1:1/${encodeURIComponent(MARKUP)}`] });
  const token = await api("POST", "/tokens", { name: `${MARKUP}`.slice(0, 60), role: "viewer", apps: ["e2e-hostile"] });
  const page = await openPage(browser);
  await signIn(page);
  for (const path of ["/", "/jobs?app=e2e-hostile", `/jobs/${made.id}`, `/jobs/${made.id}?tab=raw`, `/jobs/${made.id}?tab=revisions`, `/jobs/${made.id}/edit`, `/runs?job=${made.id}`, `/runs/${run}`, "/forecast", "/executors", "/settings?tab=tokens"]) {
    await visit(page, path);
    check(!(await page.title()).includes("owned"), `nothing ran on ${path}`);
    same(await page.locator("main img, main script, main b, main i:not([aria-hidden]):not([class]):not([data-kind]):not([data-owner])").count(), 0, `no element came from text on ${path}`);
    const beyond = await overflow(page);
    check(beyond <= 0, `${path} is ${beyond} pixels too wide`);
  }
  await visit(page, `/runs/${run}`);
  await page.getByRole("log").getByText("<img src=x", { exact: false }).first().waitFor();
  check(!(await page.locator("main").innerText()).includes("\u001b"), "no escape is shown");
  await api("DELETE", `/tokens/${token.id}`);
  same(page.complaints, [], "complaints");
}

/** The page says what it may load, and a script that was slipped in does not run. */
export async function the_policy_of_the_page_stops_scripts({ browser }) {
  const page = await openPage(browser, { expects: [/Content Security Policy/, /violates/, /TrustedHTML/] });
  await signIn(page);
  const ran = await page.evaluate(() => {
    const script = document.createElement("script");
    try {
      script.textContent = "window.slipped = true";
      document.body.append(script);
    } catch {
      return false;
    }
    return window.slipped === true;
  });
  same(ran, false, "a script in the page");
}

const SCREENS = ["Runs", "Forecast", "Executors", "Storage", "Settings", "Jobs"];
const BROKEN = "Something went wrong in the console";

/** Everything is loaded soon after the first screen, so that others open while the server is away. */
export async function every_screen_opens_while_the_server_is_away({ browser }) {
  const page = await openPage(browser, { expects: [/ERR_INTERNET_DISCONNECTED/] });
  await signIn(page);
  const loaded = () => page.evaluate(() => performance.getEntriesByType("resource").map((one) => one.name));
  for (const name of [...SCREENS, "JobDetail", "JobEditor", "RunDetail"]) await until(`${name} is loaded`, async () => (await loaded()).some((one) => one.includes(`/assets/${name}`)));
  await page.context().setOffline(true);
  for (const name of SCREENS) {
    await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    same(await page.getByText(BROKEN).count(), 0, `complaints of the screen ${name}`);
  }
  await page.context().setOffline(false);
  await page.locator(".live[data-state=live]").waitFor();
  same(page.complaints, [], "complaints");
}

/** A screen whose script could not be loaded waits for the server, and then comes by itself. */
export async function a_screen_that_could_not_be_loaded_comes_when_the_server_answers({ browser }) {
  const page = await openPage(browser, { expects: [/Failed to load resource/, /Failed to fetch/] });
  let isAway = true;
  for (const address of ["**/assets/Forecast*.js", "**/healthz"]) await page.route(address, (route) => (isAway ? route.abort() : route.continue()));
  await signIn(page);
  await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Forecast" }).click();
  await page.getByText("The server does not answer").waitFor();
  same(await page.getByText(BROKEN).count(), 0, "complaints");
  isAway = false;
  await page.getByRole("heading", { level: 1, name: "Forecast" }).waitFor();
  same(page.complaints, [], "complaints");
}

/** After an upgrade the files have other names. The page loads itself anew, and where that does not help, only once. */
export async function a_page_whose_files_are_gone_loads_itself_anew_once({ browser }) {
  const page = await openPage(browser, { expects: [/Failed to load resource/, /status of 404/, /Failed to fetch/, /dynamically imported module/] });
  await page.route("**/assets/Forecast*.js", (route) => route.fulfill({ status: 404, body: "" }));
  await signIn(page);
  let loads = 0;
  page.on("load", () => (loads += 1));
  await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Forecast" }).click();
  await page.getByText(BROKEN).waitFor();
  same(loads, 1, "loads of the page");
  await page.unroute("**/assets/Forecast*.js");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("heading", { level: 1, name: "Forecast" }).waitFor();
}

/** A server that comes back with another console is noticed: at once where no form is open, else with the next screen. */
export async function a_page_of_an_older_console_loads_itself_anew({ browser }) {
  const wire = await startWire();
  try {
    const page = await openPage(browser, { base: wire.url, expects: [/Failed to load resource/, /ERR_/] });
    await signIn(page);
    await page.locator(".live[data-state=live]").waitFor();
    await visit(page, "/jobs");
    await page.locator(".live[data-state=live]").waitFor();
    let loads = 0;
    page.on("load", () => (loads += 1));
    await page.getByRole("searchbox").focus();
    let asked = 0;
    await page.route(`${wire.url}/`, (route) => {
      if (route.request().resourceType() === "document") return route.continue();
      asked += 1;
      return route.fulfill({ contentType: "text/html", body: '<!doctype html><script type="module" src="/assets/index-other.js"></script>' });
    });
    wire.cut();
    await until("it asks for the page", () => asked > 0);
    await page.locator(".live[data-state=live]").waitFor();
    same(loads, 0, "loads of the page while somebody writes");
    await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Runs" }).click();
    await until("it is loaded anew", () => loads === 1);
    await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
  } finally {
    wire.close();
  }
}
