// Every browser test, against the server at `PUNCTUAL_URL`; as arguments, the names of those to run.
//
// `PUNCTUAL_TOKEN` is an admin's token, `PUNCTUAL_BINARY` the binary whose executor does the work, `PUNCTUAL_BULK` how many
// jobs are acted upon at once, `PUNCTUAL_RESTART` a command that restarts the server, and `PUNCTUAL_SHOTS` a folder for
// pictures. What is left out is said, and fails where `PUNCTUAL_WHOLE` is set.
import * as access from "./access.mjs";
import * as editing from "./editing.mjs";
import * as first from "./first.mjs";
import * as hostile from "./hostile.mjs";
import * as logs from "./logs.mjs";
import * as looks from "./looks.mjs";
import * as work from "./work.mjs";
import { BASE, TOKEN, openBrowser, startAgent, startExecutor } from "./world.mjs";

const tests = { ...first, ...work, ...editing, ...logs, ...access, ...hostile, ...looks };

async function run() {
  if (!TOKEN) throw new Error("PUNCTUAL_TOKEN is not set");
  const wanted = process.argv.slice(2);
  const names = Object.keys(tests).filter((name) => wanted.length === 0 || wanted.includes(name));
  const open = [];
  const opened = async (thing) => open[open.push(await thing) - 1];
  let failed = 0;
  try {
    const world = { agent: await opened(startAgent()), browser: await opened(openBrowser()) };
    await opened(startExecutor());
    for (const group of groups(names)) failed += await failures(group, world);
  } finally {
    for (const one of open.reverse()) await one.close();
  }
  console.log(`${names.length - failed} of ${names.length} passed against ${BASE}`);
  return failed === 0;
}

/** Those that want the server or the machine for themselves run alone, the others some at a time. */
const ALONE = ["an_empty_server_teaches_and_makes_a_demo_job", "the_server_is_found_again_after_a_restart", "the_first_look_comes_fast_and_stands_still"];
const AT_ONCE = 2;

function groups(names) {
  const [first, ...last] = ALONE.map((name) => names.filter((one) => one === name));
  return [first, names.filter((name) => !ALONE.includes(name)), ...last];
}

/** Runs a group, and says how many of it failed. */
async function failures(group, world) {
  const waiting = [...group];
  let failed = 0;
  const work = async () => {
    for (let name = waiting.shift(); name; name = waiting.shift()) {
      // Not `failed += await …`: that reads the sum before it waits, and forgets what another test added meanwhile.
      if (!(await passes(name, world))) failed += 1;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return failed;
}

async function passes(name, world) {
  const started = Date.now();
  const contexts = [];
  const newContext = async (options) => contexts[contexts.push(await world.browser.newContext(options)) - 1];
  try {
    const said = await tests[name]({ ...world, browser: { newContext } });
    if (said === "left out" && process.env.PUNCTUAL_WHOLE) throw new Error("it was left out");
    console.log(`${said === "left out" ? "left out" : "ok"}  ${name}  ${((Date.now() - started) / 1000).toFixed(1)} s`);
    return true;
  } catch (error) {
    console.log(`FAILED  ${name}\n${error.stack ?? error}`);
    const page = contexts.flatMap((context) => context.pages()).at(-1);
    if (process.env.PUNCTUAL_SHOTS) await page?.screenshot({ path: `${process.env.PUNCTUAL_SHOTS}/${name}.png` }).catch(() => undefined);
    return false;
  } finally {
    for (const context of contexts) await context.close();
  }
}

// Ends at once, whatever a test that failed left open.
process.exit((await run()) ? 0 : 1);
