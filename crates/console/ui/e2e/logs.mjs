// Logs of a real executor: they grow while they are watched, and whatever is in them is only text.
import { APP, api, check, openPage, same, signIn, startWire, unique, until, visit } from "./world.mjs";

function job(handler, more = {}) {
  return api("POST", "/jobs", { app: APP, name: `${handler}-${unique()}`, schedule: { kind: "manual" }, timeout: "5m", retry: { max_attempts: 1 }, target: { kind: "executor", handler, block: "serial" }, ...more });
}

async function started(made, payload) {
  return (await api("POST", `/jobs/${made.id}/run`, payload === undefined ? {} : { payload })).run;
}

/** How many lines the log says it has. */
async function lines(page) {
  const text = await page.locator(".log [role=status]").textContent();
  return Number(text.replace(/\D/g, ""));
}

/** A log is followed as it is written, let go of by scrolling up, searched, and its run is stopped. */
export async function a_log_is_followed_while_it_is_written({ browser }) {
  const run = await started(await job("chatter"));
  const page = await openPage(browser);
  await signIn(page);
  await visit(page, `/runs/${run}`);
  const log = page.getByRole("log");
  await until("there are lines", async () => (await lines(page)) > 0);
  const before = await lines(page);
  await until("the log grows", async () => (await lines(page)) > before + 5);
  same(await log.locator(".ansi-31").first().textContent(), "red", "colours are shown");
  check(!(await log.innerText()).includes("[31m"), "the signs that make colours are not");
  await until("there is something to scroll", () => log.evaluate((box) => box.scrollHeight > box.clientHeight + 100));
  const follow = page.getByRole("button", { name: "Following" });
  await follow.waitFor();
  await until("scrolling up lets go", async () => {
    await log.evaluate((box) => box.scrollTo({ top: 0 }));
    return (await follow.count()) === 0;
  });
  await page.getByRole("button", { name: /^Jump to the end/ }).click();
  await follow.waitFor();
  await page.getByRole("searchbox", { name: "Search in the log" }).fill("line 7");
  await until("only what matches is shown", async () => {
    const shown = await log.locator(".text").allTextContents();
    return shown.length > 0 && shown.every((text) => text.includes("line 7"));
  });
  await until("it is known to run", async () => (await page.locator("main .state").first().textContent()) === "Running");
  await page.getByRole("button", { name: "Stop this run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop this run" }).click();
  await until("it is cancelled", async () => (await api("GET", `/runs/${run}`)).state === "cancelled");
  await page.getByRole("button", { name: "Run again" }).waitFor();
  same(page.complaints, [], "complaints");
}

/** A log that is being followed goes on where it was when the connection was cut, with every line once. */
export async function a_log_goes_on_after_the_connection_was_cut({ browser }) {
  const run = await started(await job("chatter"));
  const wire = await startWire();
  const page = await openPage(browser, { base: wire.url, expects: [/ERR_/] });
  await signIn(page);
  await visit(page, `/runs/${run}`);
  const log = page.getByRole("log");
  await until("there are lines", async () => (await lines(page)) > 0);
  wire.cut();
  const before = await lines(page);
  await until("it grows again", async () => (await lines(page)) > before + 20);
  await api("POST", `/runs/${run}/cancel`);
  await page.getByRole("button", { name: "Run again" }).waitFor();
  // The executor counts its lines, and so does the console: a line too many or too few would part the two.
  const shown = await log.locator(".log-line").evaluateAll((all) => all.map((line) => [line.querySelector("a").textContent, line.querySelector(".text").textContent]));
  check(shown.length > 5 && shown.every(([number, text]) => text === `red line ${number}`), `every line came once: ${JSON.stringify(shown)}`);
  same(page.complaints, [], "complaints");
  wire.close();
}

const HOSTILE = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>\u202Egnp.exe\u2066 \u{1D11E}`;
const ESCAPES = "\u001b]0;owned\u0007\u001b]8;;javascript:document.title='owned'\u0007click\u001b]8;;\u0007\u001b[2J\u001b[31mred\u001b[0m";

/** An executor that writes what it likes into its log writes text, and nothing else. */
export async function a_hostile_executor_writes_only_text({ browser }) {
  const run = await started(await job("parrot"), `${HOSTILE}\n${ESCAPES}\n${"w".repeat(20_000)}\nthe end`);
  await until("it has ended", async () => (await api("GET", `/runs/${run}`)).closed_at !== null);
  const page = await openPage(browser);
  await signIn(page);
  await visit(page, `/runs/${run}`);
  const log = page.getByRole("log");
  await log.getByText("<img src=x", { exact: false }).first().waitFor();
  await until("the log is at its end", async () => /^\d+ lines$/.test((await page.locator(".log [role=status]").textContent()).replace(",", "")));
  same(await page.locator("main img, main script, main a[href^='javascript']").count(), 0, "elements that came from the log");
  const text = await log.innerText();
  check(!/[\u0000-\u0008\u001b\u0007]/.test(text), "no control character is shown");
  check(!(await page.title()).includes("owned"), "nothing ran");
  same(page.complaints, [], "complaints");
}
