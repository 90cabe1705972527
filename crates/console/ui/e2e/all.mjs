// Every browser test, one after the other: `PUNCTUAL_URL`, `PUNCTUAL_TOKEN`, and the names of tests to run only those.
// `PUNCTUAL_RESTART` is a command that restarts the server; without it that one test is left out, which is said.
import * as access from "./access.mjs";
import * as editing from "./editing.mjs";
import * as hostile from "./hostile.mjs";
import * as looks from "./looks.mjs";
import * as work from "./work.mjs";
import { BASE, TOKEN, openBrowser, startAgent } from "./world.mjs";

const tests = { ...work, ...editing, ...access, ...hostile, ...looks };

async function run() {
  if (!TOKEN) throw new Error("PUNCTUAL_TOKEN is not set");
  const wanted = process.argv.slice(2);
  const names = Object.keys(tests).filter((name) => wanted.length === 0 || wanted.includes(name));
  const browser = await openBrowser();
  const agent = await startAgent();
  let failed = 0;
  for (const name of names) {
    const started = Date.now();
    try {
      const said = await tests[name]({ browser, agent });
      console.log(`${said === "left out" ? "left out" : "ok"}  ${name}  ${((Date.now() - started) / 1000).toFixed(1)} s`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}\n${error.stack ?? error}`);
      const pages = browser.contexts().flatMap((context) => context.pages());
      if (process.env.PUNCTUAL_SHOTS) await pages.at(-1)?.screenshot({ path: `${process.env.PUNCTUAL_SHOTS}/${name}.png` }).catch(() => undefined);
    }
    for (const context of browser.contexts()) await context.close();
  }
  await browser.close();
  agent.close();
  console.log(`${names.length - failed} of ${names.length} passed against ${BASE}`);
  process.exitCode = failed === 0 ? 0 : 1;
}

await run();
