// Writing jobs: nothing is lost, and two people do not overwrite each other.
import { TOKEN, api, check, openPage, same, signIn, unique, until, visit } from "./world.mjs";

async function job(agent, more = {}) {
  return api("POST", "/jobs", { app: "e2e", name: `edit-${unique()}`, schedule: { kind: "cron", expression: "0 3 * * *", zone: "Europe/Berlin" }, target: { kind: "http", url: agent.url }, ...more });
}

/** Two people edit at once: the second sees what the first changed, and both changes are kept. */
export async function an_edit_conflict_is_shown_and_merged({ browser, agent }) {
  const made = await job(agent);
  const page = await openPage(browser, { expects: [/status of 412/] });
  await signIn(page);
  await visit(page, `/jobs/${made.id}/edit`);
  await page.getByLabel("Description").fill("mine");
  await api("PATCH", `/jobs/${made.id}`, { priority: 1 });
  await page.getByRole("button", { name: "Review and save" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  const conflict = page.getByRole("dialog", { name: /Somebody else saved version/ });
  await conflict.waitFor();
  await conflict.getByText('"priority": 1').first().waitFor();
  await conflict.getByRole("button", { name: "Put my changes on top of theirs" }).click();
  await page.getByRole("button", { name: "Review and save" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { level: 1, name: made.name, exact: true }).waitFor();
  const after = await api("GET", `/jobs/${made.id}`);
  same([after.description, after.priority], ["mine", 1], "both changes are there");
  same(page.complaints, [], "complaints");
}

/** The next runs follow what is typed, and a wrong expression says what is wrong and where. */
export async function next_runs_follow_what_is_typed({ browser, agent }) {
  const made = await job(agent);
  const page = await openPage(browser, { expects: [/status of 422/] });
  await signIn(page);
  await visit(page, `/jobs/${made.id}/edit`);
  await page.getByText("Fires at 03:00 every day", { exact: false }).waitFor();
  await page.getByLabel("Cron expression").fill("*/20 4 * * *");
  await page.getByText("04:20:00").first().waitFor();
  await page.getByLabel("Cron expression").fill("0 25 * * *");
  await page.getByText("25 is out of range", { exact: false }).first().waitFor();
  await page.getByLabel("Cron expression").fill("30 5 * * *");
  await page.getByRole("button", { name: "Review and save" }).click();
  await page.getByRole("dialog").getByText("no longer").first().waitFor();
  await page.getByRole("dialog").getByText("new", { exact: true }).first().waitFor();
  const shown = (kind) => page.getByRole("dialog").locator(`.${kind}`).allTextContents();
  const [gone, come] = [await shown("is-gone"), await shown("is-new")];
  check(gone.length === 5 && gone.every((time) => time.includes("T03:00:00")), `the first five that go: ${gone}`);
  check(come.length === 5 && come.every((time) => time.includes("T05:30:00")), `the first five that come: ${come}`);
  await page.getByRole("dialog").getByRole("button", { name: "Back" }).click();
  await page.getByLabel("JSON", { exact: true }).fill("{");
  await page.getByText("The JSON cannot be read yet.").waitFor();
  check(await page.getByRole("button", { name: "Review and save" }).isDisabled(), "what cannot be read cannot be saved");
  same(page.complaints, [], "complaints");
}

/** A reload and a session that ends leave what was written where it was. */
export async function nothing_is_lost_when_the_session_ends({ browser, agent }) {
  const made = await job(agent);
  const { id, token } = await api("POST", "/tokens", { name: `brief-${unique()}`, role: "editor", apps: ["*"] });
  const page = await openPage(browser, { expects: [/status of 403/] });
  await signIn(page, token);
  await visit(page, `/jobs/${made.id}/edit`);
  await page.getByLabel("Description").fill("a long thought");
  await page.reload();
  await page.getByText("What you wrote before was kept and is here again.").waitFor();
  same(await page.getByLabel("Description").inputValue(), "a long thought", "after a reload");
  await api("DELETE", `/tokens/${id}`);
  await page.getByRole("button", { name: "Review and save" }).click();
  const again = page.getByRole("dialog", { name: "Your session has ended" });
  await again.waitFor();
  await again.getByLabel("Access token").fill(TOKEN);
  await again.getByRole("button", { name: "Sign in" }).click();
  await again.waitFor({ state: "detached" });
  same(await page.getByLabel("Description").inputValue(), "a long thought", "after the session");
  await until("it can be saved", async () => {
    const dialog = page.getByRole("dialog", { name: /^Save/ });
    if (!(await dialog.isVisible())) await page.getByRole("button", { name: "Review and save" }).click();
    return dialog.getByRole("button", { name: "Save" }).isEnabled();
  });
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await until("it is saved", async () => (await api("GET", `/jobs/${made.id}`)).description === "a long thought");
}

/** An earlier version is looked at and brought back. */
export async function an_earlier_version_is_brought_back({ browser, agent }) {
  const made = await job(agent, { description: "first" });
  await api("PATCH", `/jobs/${made.id}`, { description: "second" });
  const page = await openPage(browser);
  await signIn(page);
  await visit(page, `/jobs/${made.id}?tab=revisions`);
  await page.getByText('"description": "second"').first().waitFor();
  await page.getByRole("button", { name: "Roll back" }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Roll back" }).click();
  await until("it is as it was", async () => (await api("GET", `/jobs/${made.id}`)).description === "first");
  same(page.complaints, [], "complaints");
}

/** Windows and the jobs before it are set by form, and are what is saved. */
export async function windows_and_jobs_before_are_set_by_form({ browser, agent }) {
  const [first, made] = [await job(agent), await job(agent)];
  const page = await openPage(browser);
  await signIn(page);
  await visit(page, `/jobs/${made.id}/edit`);
  await page.getByRole("button", { name: "Add a window" }).click();
  const window = page.getByRole("group", { name: "Window 1" });
  await window.getByRole("button", { name: "Fri" }).click();
  await window.getByLabel("Hours").fill("08:30-12:00");
  await window.getByLabel("What falls outside").selectOption("defer");
  await page.getByRole("button", { name: "Add a job before it" }).click();
  const before = page.getByRole("group", { name: "Job before 1" });
  await before.getByRole("combobox", { name: "Job" }).fill(`e2e/${first.name}`);
  await before.getByLabel("When it has").selectOption("failed");
  await page.getByText("Only mon-thu, 08:30-12:00", { exact: false }).waitFor();
  await page.getByRole("button", { name: "Review and save" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { level: 1, name: made.name, exact: true }).waitFor();
  const after = await api("GET", `/jobs/${made.id}`);
  same(after.windows.map(({ days, hours, outside }) => [days, hours, outside]), [["mon-thu", "08:30-12:00", "defer"]], "the windows");
  same(after.after.map((one) => one.when), ["failed"], "the jobs before");
  same(page.complaints, [], "complaints");
}
