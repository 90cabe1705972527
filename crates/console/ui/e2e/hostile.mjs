// Text from outside is text: markup, scripts, marks that turn a line round, letters of four bytes, and very much of it.
import { api, check, openPage, overflow, same, signIn, unique, visit } from "./world.mjs";

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
