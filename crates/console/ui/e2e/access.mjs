// What each role may do, and what happens when the server goes away and comes back.
import { exec } from "node:child_process";
import { BASE, TOKEN, api, check, openPage, same, signIn, unique, until, visit } from "./world.mjs";

/** A person with the role of a viewer is offered nothing else, on any screen. */
export async function a_viewer_is_offered_nothing_forbidden({ browser, agent }) {
  const made = await api("POST", "/jobs", { app: "e2e", name: `view-${unique()}`, schedule: { kind: "manual" }, target: { kind: "http", url: agent.url } });
  const { run } = await api("POST", `/jobs/${made.id}/run`, {});
  const { token } = await api("POST", "/tokens", { name: `viewer-${unique()}`, role: "viewer", apps: ["*"] });
  const page = await openPage(browser, { expects: [/status of 403/] });
  await signIn(page, token);
  const forbidden = /^(Run (?!\d)|Stop|Start|Edit|Delete|New |Backfill|Cancel what|Roll back|Revoke|Drain|Pause|Resume|Reschedule|Select )/;
  for (const path of ["/", "/jobs", `/jobs/${made.id}`, `/jobs/${made.id}?tab=revisions`, "/runs?state=pending", `/runs/${run}`, "/executors", "/storage", "/settings", "/forecast"]) {
    await visit(page, path);
    for (const role of ["button", "link", "switch", "checkbox"]) {
      const names = await page.getByRole(role).evaluateAll((all) => all.map((one) => one.getAttribute("aria-label") ?? one.textContent ?? ""));
      const found = names.filter((name) => forbidden.test(name.trim()) || (role !== "link" && role !== "button"));
      same(found.filter((name) => !/^Runs/.test(name)), [], `forbidden on ${path}`);
    }
  }
  await visit(page, "/jobs/new");
  await page.getByText("Jobs are changed by editors and admins.").waitFor();
  same(page.complaints, [], "complaints");
}

/** A token that opens nothing is refused with a sentence, and signing out leaves nothing behind. */
export async function a_wrong_token_is_refused_and_signing_out_ends_it({ browser }) {
  const page = await openPage(browser);
  await page.goto(`${BASE}/`);
  await page.getByLabel("Access token").fill("pct_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("This token opens nothing.", { exact: false }).waitFor();
  await signIn(page, TOKEN);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Access token").waitFor();
  await page.reload();
  await page.getByLabel("Access token").waitFor();
  const left = await page.evaluate(() => Object.values(sessionStorage).concat(Object.values(localStorage)).join(" "));
  check(!left.includes(TOKEN), "no token is left behind");
}

/** A server that was restarted is found again, and what happens then is seen. */
export async function the_server_is_found_again_after_a_restart({ browser, agent }) {
  if (!process.env.PUNCTUAL_RESTART) return "left out";
  const made = await api("POST", "/jobs", { app: "e2e", name: `back-${unique()}`, schedule: { kind: "manual" }, target: { kind: "http", url: agent.url } });
  const page = await openPage(browser, { expects: [/ERR_/, /Failed to load resource/] });
  await signIn(page);
  await visit(page, `/jobs/${made.id}?tab=runs`);
  await page.locator(".live[data-state=live]").waitFor();
  const isOver = new Promise((done, fail) => exec(process.env.PUNCTUAL_RESTART, (error) => (error ? fail(error) : done())));
  await page.locator(".live[data-state=reconnecting]").waitFor();
  await isOver;
  await until("the server answers", () => fetch(`${BASE}/readyz`).then((one) => one.ok, () => false));
  await page.locator(".live[data-state=live]").waitFor();
  await api("POST", `/jobs/${made.id}/run`, {});
  await page.getByRole("table", { name: "Runs" }).getByText("Succeeded").first().waitFor();
  return undefined;
}

/** A token is made, shown once, opens the console, and is revoked. */
export async function a_token_is_made_shown_once_and_revoked({ browser }) {
  const page = await openPage(browser);
  const name = `made-${unique()}`;
  await signIn(page);
  await visit(page, "/settings");
  await page.getByRole("tab", { name: "Access tokens" }).click();
  await page.getByRole("button", { name: "New token" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill(name);
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  const token = await page.locator(".secret").textContent();
  same((await fetch(`${BASE}/api/v1/stats`, { headers: { authorization: `Bearer ${token}` } })).status, 200, "it opens");
  await page.getByRole("button", { name: "I have it" }).click();
  const row = page.getByRole("row").filter({ hasText: name });
  await row.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await row.waitFor({ state: "detached" });
  same(page.complaints, [], "complaints");
}

/** An admin sees what the node runs with and who said it; secrets are not shown. */
export async function the_configuration_is_shown_with_its_origins({ browser }) {
  const page = await openPage(browser);
  await signIn(page);
  await visit(page, "/settings?tab=configuration");
  await page.getByRole("searchbox", { name: "Search settings" }).fill("server.listen");
  const row = page.getByRole("row").filter({ hasText: "server.listen" });
  await row.getByText(new URL(BASE).host).waitFor();
  check(!(await page.locator("main").innerText()).includes(TOKEN), "no token is shown");
  same(page.complaints, [], "complaints");
}
