// Heavy hitters, floods and limits on zones, if this build counts them.

import { get, may, parameters, post, remove } from "./api.js";
import { byId, change, choice, element, field, fill, form } from "./dom.js";
import { count, countOrDot, whose } from "./format.js";
import { removal } from "./names.js";
import { Table } from "./tables.js";

const TITLES = [
  ["names", "Top names"],
  ["clients", "Top clients"],
  ["blocked", "Top blocked names"],
  ["nxdomain", "Zones with names that do not exist"],
  ["failing", "Zones without answers"],
];
const ROWS = 10;

/** Makes the panels. `look` brings one of them up to date, the next one the next time. */
export function topPanel() {
  const span = choice("window", [["1m", "last minute"], ["1s", "last second"], ["1h", "last hour"]]);
  const grid = element("div", { class: "grid three" });
  const panels = TITLES.map(([what, title]) => hitters(what, title, span, grid));
  if (may("get /api/v1/floods")) panels.push(floods(grid));
  if (may("get /api/v1/limits")) panels.push(limits(grid));
  fill(byId("top"), field("Heavy hitters of the", span), grid);
  let turn = 0;
  // What was refused once, as it is not configured, is not asked for again.
  const refused = new Set();
  return {
    look: async () => {
      const panel = panels[turn % panels.length];
      turn += 1;
      if (refused.has(panel)) return;
      try {
        await panel.read();
      } catch (problem) {
        if (problem.status < 400 || problem.status === 401) throw problem;
        if (problem.status < 429) refused.add(panel);
        panel.explain(problem.message);
      }
    },
  };
}

/** A panel with a table in the grid. */
function panelIn(grid, title, columns, options, more = null) {
  const remark = element("small", {});
  const table = new Table(columns, { caption: title, ...options });
  const explain = (text) => {
    table.update([]);
    fill(table.empty, text);
  };
  grid.append(element("section", { class: "panel" }, element("h2", {}, title, remark), more, table.node));
  return { table, remark, explain };
}

function hitters(what, title, span, grid) {
  const { table, remark, explain } = panelIn(grid, title, [
    { title: what === "clients" ? "client" : "name", name: true, of: (one) => one.key },
    { title: "", bar: (one) => [["stage-part", one.share]] },
    { title: "share", right: true, of: (one) => `${(one.share * 100).toFixed(1)} %` },
    { title: "count", right: true, of: (one) => count(one.count) },
  ], { key: (one) => one.key, empty: "Nothing was counted." });
  const read = async () => {
    const top = await get(`/api/v1/top${parameters({ what, window: span.value, n: ROWS })}`);
    table.update(top.rows.map((row) => ({ ...row, share: row.count / Math.max(1, top.total) })));
    fill(remark, `of ${count(top.total)}${top.error > 0 ? `, at most ${count(top.error)} too many` : ""}`);
  };
  return { read, explain };
}

function floods(grid) {
  const { table, explain } = panelIn(grid, "Floods of random names", [
    { title: "zone", name: true, of: (one) => one.zone },
    { title: "for", right: true, of: (one) => `${one.seconds} s` },
    { title: "names/s", right: true, of: (one) => count(one.names) },
    { title: "misses/s", right: true, of: (one) => count(one.misses) },
    { title: "answered", right: true, of: (one) => countOrDot(one.answered) },
  ], { key: (one) => one.zone, empty: "No zone is flooded." });
  return { read: async () => table.update((await get("/api/v1/floods")).floods), explain };
}

function limits(grid) {
  const read = async () => table.update((await get("/api/v1/limits")).limits);
  const input = (name, more) => element("input", { name, required: true, size: "14", spellcheck: "false", ...more });
  const add = form({ hidden: !may("post /api/v1/limits") }, async (values, node) => {
    const order = { zone: values.zone.trim(), rate: Number(values.rate) };
    if (values.minutes) order.seconds = Number(values.minutes) * 60;
    if (await change(post("/api/v1/limits", order))) {
      node.reset();
      await read();
    }
  },
  field("Zone", input("zone", { placeholder: "example.com" })),
  field("Misses/s", input("rate", { type: "number", min: "0", max: "1000000", value: "10" })),
  field("Minutes", input("minutes", { type: "number", min: "1", max: "44640", required: false, placeholder: "ever" })),
  element("button", { type: "submit" }, "Limit"));
  const { table, explain } = panelIn(grid, "Limits on zones", [
    { title: "zone", name: true, of: (one) => one.zone },
    { title: "misses/s", right: true, of: (one) => String(one.rate) },
    { title: "passed", right: true, of: (one) => count(one.passed) },
    { title: "refused", right: true, of: (one) => count(one.refused) },
    { title: "left", right: true, of: (one) => ((one.seconds_left ?? null) === null ? "ever" : `${one.seconds_left} s`) },
    { title: "by", of: whose },
    ...removal("delete /api/v1/limits/{zone}", (one) => remove(`/api/v1/limits/${encodeURIComponent(one.zone)}`), read),
  ], { key: (one) => one.zone, empty: "No zone is limited." }, add);
  return { read, explain };
}
