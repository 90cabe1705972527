// What every browser test needs: a browser, the API, a small agent to call, and ways to check.
import { spawn } from "node:child_process";
import http from "node:http";
import net from "node:net";
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

/** A wire to the server that can be cut: everything that goes over it then ends at once. */
export async function startWire() {
  const ends = new Set();
  const { hostname, port } = new URL(BASE);
  const server = net.createServer((near) => {
    const far = net.connect(Number(port), hostname);
    for (const [one, other] of [[near, far], [far, near]]) {
      ends.add(one);
      one.pipe(other);
      one.on("error", () => undefined);
      one.on("close", () => {
        ends.delete(one);
        other.destroy();
      });
    }
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const cut = () => ends.forEach((one) => one.destroy());
  const close = () => {
    cut();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, cut, close };
}

/** The app that the executor below works for. */
export const APP = "e2e-native";

/** Commands as handlers: one that says much for some minutes, in colours, and one that says whatever it is handed. */
const HANDLERS = [
  String.raw`chatter=sh -c "for n in $(seq 3000); do printf '\033[31mred\033[0m line %d\n' $n; sleep 0.05; done"`,
  "parrot=cat",
];

/** A real executor: the one that the binary has in it. It is there when this answers. */
export async function startExecutor() {
  const binary = process.env.PUNCTUAL_BINARY;
  if (!binary) throw new Error("PUNCTUAL_BINARY is not set: the executor of the tests is the binary itself");
  const child = spawn(binary, ["executor", "--app", APP, "--admin", BASE, ...HANDLERS.flatMap((one) => ["--command", one])], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (piece) => (said += piece));
  const isThere = () => api("GET", `/apps/${APP}/executors`).then((answer) => answer.items.length > 0, () => false);
  await until("the executor has registered", isThere).catch((error) => {
    throw new Error(`${error.message}; it says: ${said}`);
  });
  return { close: () => child.kill("SIGTERM") };
}

export async function openBrowser() {
  return chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
}

/** A page of its own, which fails the test when the console logs an error or breaks its own policy. */
export async function openPage(browser, options = {}) {
  const { expects = [], base = BASE, ...context } = options;
  const home = await browser.newContext({ viewport: { width: 1280, height: 900 }, timezoneId: "Europe/Berlin", locale: "en-GB", ...context });
  const page = await home.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.complaints = [];
  page.base = base;
  const isExpected = (text) => [/status of 40[14]/, ...expects].some((pattern) => pattern.test(text));
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (message) => message.type() === "error" && !isExpected(message.text()) && page.complaints.push(message.text()));
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== new URL(base).origin && protocol !== "data:" && protocol !== "blob:") page.complaints.push(`a request to ${request.url()}`);
  });
  page.on("dialog", (dialog) => {
    if (dialog.type() !== "beforeunload") page.complaints.push(`a dialog: ${dialog.message()}`);
    void dialog.accept();
  });
  return page;
}

export async function signIn(page, token = TOKEN) {
  await page.goto(`${page.base}/`);
  await page.getByLabel("Access token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("#main h1").waitFor();
}

/** Goes to an address, and waits until what it shows is there: no grey bar is left. */
export async function visit(page, path) {
  await page.goto(`${page.base}${path}`);
  await page.locator("main h1").waitFor();
  await page.waitForFunction(() => !document.querySelector("main .bone"));
}

export const unique = () => `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 6)}`;

/** How many pixels of the page are beyond the right edge. */
export function overflow(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe has to say against a page, as far as it is serious. */
export async function faults(page) {
  await page.evaluate(AXE);
  const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = result.violations.filter((one) => one.impact === "serious" || one.impact === "critical");
  return serious.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.target.join(" ")} (${node.any?.[0]?.message ?? node.failureSummary ?? ""})`).join("; ")}`);
}
