// Two nodes over one database: the console of the one shows what the other does.
//
// `PUNCTUAL_URL` is the node whose console is opened, `PUNCTUAL_OTHER_URL` the other, and `PUNCTUAL_OTHER_PID` its process.
import { BASE, TOKEN, api, check, openBrowser, openPage, same, signIn, startAgent, unique, until, visit } from "./world.mjs";
import { readEvents } from "./reading.mjs";

const OTHER = process.env.PUNCTUAL_OTHER_URL;
/** More than there are shards. */
const JOBS_MAX = 70;
const ROUNDS = 3;

async function other(method, path, body) {
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  const response = await fetch(`${OTHER}/api/v1${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  check(response.ok, `${method} ${path}: ${response.status}`);
  return response.json();
}

/** Waits until each node acts for a good part of the shards, as both of them know. */
async function shared() {
  await until("the nodes share the shards", async () => {
    const both = await Promise.all([api("GET", "/nodes"), other("GET", "/nodes")]);
    return both.every(({ items }) => items.length === 2 && items.every((node) => node.shards > 8) && items[0].shards + items[1].shards === 64);
  });
}

/** Makes jobs until each node executes the runs of one, as far as this node is told. */
async function jobsOfBoth(agent) {
  const heard = await readEvents(BASE, TOKEN);
  const name = unique();
  const jobs = [];
  const closedOf = (job) => heard.events.filter((event) => event.name === "run.closed" && event.data.job === job.id);
  const isTheirs = (job) => closedOf(job).some((event) => event.data.node === "toronto");
  // Which node it is depends on the shard of the job.
  while (jobs.length < JOBS_MAX && new Set(jobs.map(isTheirs)).size < 2) {
    const job = await api("POST", "/jobs", { app: "e2e", name: `two-${name}-${jobs.length}`, schedule: { kind: "manual" }, target: { kind: "http", url: `${agent.url}/?ms=20` } });
    for (let round = 0; round < ROUNDS; round += 1) await api("POST", `/jobs/${job.id}/run`);
    await until("every end is told here", () => closedOf(job).length >= ROUNDS);
    jobs.push(job);
  }
  heard.close();
  for (const job of jobs) same(closedOf(job).length, ROUNDS, `ends of ${job.name}, each told once`);
  same(heard.events.filter((event) => event.name === "reset").length, 0, "resets where nothing was missed");
  const theirs = jobs.filter(isTheirs);
  check(theirs.length > 0 && theirs.length < jobs.length, `the other node has ${theirs.length} of ${jobs.length} jobs`);
  return { jobs, theirs };
}

async function run() {
  check(OTHER && TOKEN, "PUNCTUAL_OTHER_URL or PUNCTUAL_TOKEN is not set");
  const agent = await startAgent();
  const browser = await openBrowser();
  try {
    await shared();
    const { jobs, theirs } = await jobsOfBoth(agent);
    const page = await openPage(browser);
    await signIn(page);

    // Charts and figures are those of both.
    const chart = page.getByRole("img", { name: `${jobs.length * ROUNDS} succeeded, 0 failed, 0 did not run` });
    await chart.waitFor();
    same(await page.getByText("Figures without").count(), 0, "missing nodes where both answer");
    await shot(page, "cluster-overview");

    // The rows of jobs have the runs of both.
    await visit(page, "/jobs?app=e2e");
    for (const job of [jobs[0], jobs[jobs.length - 1]]) {
      const row = page.getByRole("row").filter({ hasText: job.name });
      await row.getByRole("img", { name: `Last ${ROUNDS} runs: 0 failed` }).waitFor();
    }
    await shot(page, "cluster-jobs");

    // What the other node does shows while it happens: the list is read once, and again only when an event says so.
    const job = theirs[0];
    await visit(page, `/runs?job=${job.id}`);
    await until("it is live", async () => (await page.locator(".live[data-state=live]").count()) === 1);
    const rows = page.getByRole("table", { name: "Runs" }).getByRole("row").filter({ hasText: "Succeeded" });
    await until("the runs so far are there", async () => (await rows.count()) === ROUNDS);
    let asked = 0;
    page.on("request", (request) => (asked += /\/api\/v1\/(jobs\/\d+\/)?runs\?/.test(request.url()) ? 1 : 0));
    await other("POST", `/jobs/${job.id}/run`);
    await until("the new run is there", async () => (await rows.count()) === ROUNDS + 1);
    check(asked > 0 && asked < 10, `the list was asked for ${asked} times`);
    await shot(page, "cluster-runs");

    // A node that hangs is left out and named, as long as it counts as alive; nothing else stops.
    process.kill(Number(process.env.PUNCTUAL_OTHER_PID), "SIGSTOP");
    await visit(page, "/");
    await page.getByText("Figures without toronto: no answer within a second.").waitFor();
    await shot(page, "cluster-missing");
    same(page.complaints, [], "complaints");
    console.log("ok  a console of one node shows what happens on all of them");
    return true;
  } finally {
    await browser.close();
    agent.close();
  }
}

async function shot(page, name) {
  if (process.env.PUNCTUAL_SHOTS) await page.screenshot({ path: `${process.env.PUNCTUAL_SHOTS}/${name}.png` });
}

// Ends at once, whatever was left open.
process.exit(await run().catch((error) => console.log(`FAILED  ${error.stack ?? error}`)) ? 0 : 1);
