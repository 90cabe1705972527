// What every browser test needs: a browser, the API, a small agent to call, and ways to check.
import http from "node:http";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

export const BASE = (process.env.PUNCTUAL_URL ?? "http://127.0.0.1:7070").replace(/\/$/, "");
export const TOKEN = process.env.PUNCTUAL_TOKEN ?? "";
const CHROMIUM = process.env.PUNCTUAL_CHROMIUM ?? "/usr/bin/chromium";
const ARGUMENTS = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"];

/** How long anything may take on a busy machine. */
export const PATIENCE = Number(process.env.PUNCTUAL_PATIENCE_MS ?? 60_000);

export async function api(method, path, body, token = TOKEN) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const response = await fetch(`${BASE}/api/v1${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** Asks until the answer is there, or says what it waited for. */
export async function until(what, ask) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await new Promise((wake) => setTimeout(wake, 150));
  }
}

export function check(isTrue, what) {
  if (!isTrue) throw new Error(what);
}

export function same(found, expected, what) {
  check(JSON.stringify(found) === JSON.stringify(expected), `${what}: ${JSON.stringify(found)} is not ${JSON.stringify(expected)}`);
}

/** An endpoint for jobs to call: `?ms=` says how long it takes, `?status=` how it answers. */
export async function startAgent() {
  const server = http.createServer((request, response) => {
    const asked = new URL(request.url, "http://agent");
    request.resume();
    setTimeout(() => {
      response.writeHead(Number(asked.searchParams.get("status") ?? 200), { "content-type": "text/plain" });
      response.end(asked.searchParams.get("say") ?? "well done");
    }, Number(asked.searchParams.get("ms") ?? 5));
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, close };
}

export async function openBrowser() {
  return chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
}

/** A page of its own, which fails the test when the console logs an error or breaks its own policy. */
export async function openPage(browser, options = {}) {
  const { expects = [], ...context } = options;
  const home = await browser.newContext({ viewport: { width: 1280, height: 900 }, timezoneId: "Europe/Berlin", locale: "en-GB", ...context });
  const page = await home.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.complaints = [];
  const isExpected = (text) => [/status of 40[14]/, ...expects].some((pattern) => pattern.test(text));
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (message) => message.type() === "error" && !isExpected(message.text()) && page.complaints.push(message.text()));
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== new URL(BASE).origin && protocol !== "data:" && protocol !== "blob:") page.complaints.push(`a request to ${request.url()}`);
  });
  page.on("dialog", (dialog) => {
    if (dialog.type() !== "beforeunload") page.complaints.push(`a dialog: ${dialog.message()}`);
    void dialog.accept();
  });
  return page;
}

export async function signIn(page, token = TOKEN) {
  await page.goto(`${BASE}/`);
  await page.getByLabel("Access token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("#main h1").waitFor();
}

export async function visit(page, path) {
  await page.goto(`${BASE}${path}`);
  await page.locator("main h1").waitFor();
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe has to say against a page, as far as it is serious. */
export async function faults(page) {
  await page.evaluate(AXE);
  const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = result.violations.filter((one) => one.impact === "serious" || one.impact === "critical");
  return serious.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.target.join(" ")} (${node.any?.[0]?.message ?? node.failureSummary ?? ""})`).join("; ")}`);
}
