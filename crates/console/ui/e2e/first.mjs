// The very first look at a server that has nothing yet.
import { api, openPage, same, signIn } from "./world.mjs";

/** Where there is no job, the console says what one is, how to make one, and makes one that fires. */
export async function an_empty_server_teaches_and_makes_a_demo_job({ browser }) {
  if ((await api("GET", "/jobs?limit=1")).items.length > 0) return "left out";
  const page = await openPage(browser);
  await signIn(page);
  await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
  await page.getByText("punctual job create -f job.toml").waitFor();
  await page.getByRole("button", { name: "Create a demo job" }).click();
  await page.getByRole("heading", { level: 1, name: "first-job" }).waitFor();
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Run now" }).click();
  await page.getByText("succeeded at the first attempt", { exact: false }).waitFor();
  same(page.complaints, [], "complaints");
  return undefined;
}
