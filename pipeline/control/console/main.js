// The console: it logs in, shows pages, and asks for the counters once a second.

import { get, known, may, post, session } from "./api.js";
import { clientsPage } from "./clients.js";
import { byId, change, confirmed, notify, write } from "./dom.js";
import { clock, duration } from "./format.js";
import { History } from "./history.js";
import { listen, showKeys } from "./keys.js";
import { logPanel } from "./log.js";
import { loggedIn } from "./login.js";
import { lookupPanel } from "./lookup.js";
import { namesPage } from "./names.js";
import { Overview } from "./overview.js";
import { between } from "./rates.js";
import { settingsPage } from "./settings.js";
import { topPanel } from "./top.js";

const INTERVAL_MS = 1_000;
// Where the reason of a log-out is kept until the page is there again.
const LEFT_AS = "pmdns.left";
const THEMES = ["system", "dark", "light"];

const history = new History();
// The last report and its rates.
let report = null;
let rates = null;
let isPaused = false;
let answeredAt = null;
let pages = {};

function queriesPage() {
  const explain = may("get /api/v1/lookup") ? lookupPanel() : null;
  const log = may("get /api/v1/log") ? logPanel(explain) : null;
  byId("no-queries").hidden = Boolean(explain || log);
  return { read: async () => log?.read() };
}

/** Elements whose route is missing in this build, or closed to this token, are hidden. */
function hideWhatMayNot() {
  for (const node of document.querySelectorAll("[data-route]")) node.hidden = !may(node.dataset.route);
  for (const link of byId("nav").children) {
    const parts = [...byId(link.hash.slice(1)).children];
    link.hidden = parts.every((part) => part.dataset.route && part.hidden);
  }
}

function shownPage() {
  const name = location.hash.slice(1);
  return name in pages ? name : "overview";
}

async function showPage() {
  const name = shownPage();
  for (const link of byId("nav").children) {
    const isShown = link.hash === `#${name}`;
    byId(link.hash.slice(1)).hidden = !isShown;
    if (isShown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  window.scrollTo(0, 0);
  await refresh();
}

async function refresh() {
  try {
    await pages[shownPage()].read();
  } catch (refused) {
    notify(refused.message, true);
  }
}

function showState() {
  const { version, state, verdict = state, problems = [], uptime_seconds: uptime } = report;
  const isDrained = state === "drained";
  const isUnfit = verdict === "unfit";
  write(byId("state"), isPaused ? "❚❚ paused" : isDrained ? "◆ drained" : isUnfit ? "▲ not fit" : "● serving");
  byId("state").dataset.mark = isDrained || isUnfit ? "bad" : "good";
  byId("state").title = problems.join("; ");
  write(byId("about"), `${version} · up ${duration(uptime)}`);
  byId("drain").textContent = isDrained ? "Resume" : "Drain";
  byId("drain").hidden = !may(isDrained ? "post /api/v1/resume" : "post /api/v1/drain");
  document.title = isDrained ? "◆ pmdns" : isUnfit ? "▲ pmdns" : "pmdns";
}

function showGone(why) {
  const since = answeredAt === null ? "" : ` since ${clock(new Date(answeredAt))} (${duration((Date.now() - answeredAt) / 1000)})`;
  write(byId("gone"), `✕ No answer${since}: ${why}. What is below is old. The next attempt follows.`);
  byId("gone").hidden = false;
  document.body.dataset.gone = "";
  document.title = "✕ pmdns";
}

/** One look at the instance. */
async function look() {
  const later = await get("/api/v1/stats");
  rates = between(report, later);
  // The first rates are means since the start.
  if (report !== null) history.add(Overview.sample(rates, Date.now()));
  report = later;
  answeredAt = Date.now();
  byId("gone").hidden = true;
  delete document.body.dataset.gone;
  showState();
  if (shownPage() === "overview") {
    await pages.overview.upstreams.look();
    pages.overview.show(report, rates, history.samples);
    await pages.overview.top?.look();
  }
}

/** Looks once a second while the page is seen: the next look begins when the one before has ended. */
async function watch() {
  for (;;) {
    const began = performance.now();
    if (!document.hidden && !isPaused) {
      try {
        await look();
      } catch (refused) {
        if (refused.status === 401) return;
        showGone(refused.message ?? String(refused));
      }
    }
    await new Promise((go) => setTimeout(go, Math.max(50, INTERVAL_MS - (performance.now() - began))));
  }
}

function nextTheme() {
  const now = document.documentElement.dataset.theme ?? "system";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  if (next === "system") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("pmdns.theme");
  } else {
    document.documentElement.dataset.theme = next;
    localStorage.setItem("pmdns.theme", next);
  }
  notify(`theme: ${next}`);
}

function pause() {
  isPaused = !isPaused;
  byId("pause").setAttribute("aria-pressed", String(isPaused));
  write(byId("pause"), isPaused ? "Go on" : "Pause");
  if (report) showState();
}

async function reload() {
  byId("reload").disabled = true;
  await change(post("/api/v1/reload"));
  byId("reload").disabled = false;
  await refresh();
}

async function drainOrResume() {
  const isDrained = report?.state === "drained";
  const question = "Send clients to other nodes? Queries that come here are answered on.";
  if (isDrained || (await confirmed(question, "Drain"))) await change(post(isDrained ? "/api/v1/resume" : "/api/v1/drain"));
}

function logOut() {
  session.forget();
  location.reload();
}

async function start(why) {
  await loggedIn(why);
  const overview = new Overview();
  overview.top = may("get /api/v1/top") ? topPanel() : null;
  overview.read = async () => {
    await overview.upstreams.look();
    if (report) overview.show(report, rates, history.samples);
  };
  pages = { overview, queries: queriesPage(), names: namesPage(), clients: clientsPage(), config: settingsPage() };
  hideWhatMayNot();
  byId("header").hidden = false;
  byId("nav").hidden = false;
  write(byId("who"), `${known.by} · ${known.role}`);
  window.addEventListener("hashchange", showPage);
  await showPage();
  await watch();
  session.forget();
  // What the page says is gone with it, and its next one says why.
  sessionStorage.setItem(LEFT_AS, "✕ The token counts no more: it was revoked, or the configuration has another one.");
  location.reload();
}

byId("theme").onclick = nextTheme;
byId("pause").onclick = pause;
byId("help").onclick = showKeys;
byId("logout").onclick = logOut;
byId("reload").onclick = reload;
byId("drain").onclick = drainOrResume;
listen({
  "?": showKeys,
  t: nextTheme,
  p: pause,
  r: refresh,
  "/": () => {
    if (!document.querySelector("main > section:not([hidden]) .search")) location.hash = "#queries";
    setTimeout(() => document.querySelector("main > section:not([hidden]) .search")?.focus(), 0);
  },
});
const left = sessionStorage.getItem(LEFT_AS) ?? "";
sessionStorage.removeItem(LEFT_AS);
start(left);
