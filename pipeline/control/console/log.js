// Searches in the query log: who asked what, what came of it, and why.

import { get, may, parameters } from "./api.js";
import { byId, choice, confirmed, element, field, fill, form, heading } from "./dom.js";
import { micros, moment } from "./format.js";
import { decideNow } from "./names.js";
import { Table } from "./tables.js";

const SOURCES = {
  hit: "from the cache",
  forward: "from an upstream",
  stale: "expired, from the cache",
  local: "local records",
  policy: "a list",
  truncated: "truncated, ask over TCP",
  error: "refused or malformed",
  failure: "upstreams failed",
  drop: "a list: no answer",
};

/** Makes the panel. `explain(entry)` looks its name up; null: this build cannot. */
export function logPanel(explain) {
  let found = 0;
  const small = (label, onclick) => element("button", { type: "button", class: "small", onclick }, label);
  const decide = async (row, kind) => {
    const views = element("input", { type: "checkbox" });
    const only = element("label", { class: "check" }, views, `only in view ${row.view}`);
    const question = kind === "block"
      ? `Block ${row.name}, and no name below it, for all clients?`
      : `Let ${row.name} pass for all clients, whatever lists say?`;
    if (await confirmed(question, kind === "block" ? "Block" : "Allow", row.view && only)) {
      await decideNow({ name: row.name, kind, scope: "exact", action: "nxdomain", views: views.checked ? [row.view] : [] });
    }
  };
  const decision = (row) => (row.blocked ? small("Allow", () => decide(row, "allow")) : small("Block", () => decide(row, "block")));
  const act = (row) => element("span", { class: "buttons" },
    explain && small("Why?", () => explain(row)),
    may("post /api/v1/entries") && decision(row));
  const table = new Table([
    { title: "time", of: (one) => moment(one.time_us / 1e6) },
    { title: "client", name: true, of: (one) => one.client },
    { title: "name", name: true, of: (one) => one.name },
    { title: "type", of: (one) => one.type },
    { title: "answer", of: (one) => one.rcode || "none" },
    { title: "reason", of: reason, mark: (one) => (one.blocked ? "bad" : one.source === "failure" ? "bad" : "") },
    { title: "took", right: true, of: (one) => micros(one.latency_us) },
    { title: "over", of: (one) => one.transport },
    { title: "view", of: (one) => one.view },
    { title: "", node: act },
  ], { key: (one) => one.key, empty: "No entry is like that.", caption: "Entries of the query log" });
  const trouble = element("p", { class: "error", role: "alert" });
  const input = (name, more) => element("input", { name, spellcheck: "false", autocapitalize: "none", ...more });
  const search = form({}, async (values) => {
    const wanted = { ...values, name: values.name.trim(), client: values.client.trim(), rcode: values.rcode.trim().toUpperCase() };
    try {
      const page = await get(`/api/v1/log${parameters(wanted)}`);
      found += 1;
      // Entries have no number of their own, so those of one search are told apart by their places in it.
      const row = (entry, index) => ({ ...entry, key: `${found} ${index}`, isWhole: isWhole(entry.client, page) });
      table.update(page.entries.map(row));
      fill(trouble);
      search.hidden = false;
    } catch (refused) {
      // Without a database nothing can be searched.
      search.hidden = refused.status === 404;
      table.update([]);
      table.empty.hidden = search.hidden;
      fill(trouble, `✕ ${refused.message}`);
    }
  },
  field("Name, and below", input("name", { placeholder: "example.com", class: "search" })),
  field("Client", input("client", { placeholder: "192.0.2.7" })),
  field("Since", choice("since", [["10m", "10 minutes"], ["1h", "1 hour"], ["1d", "1 day"], ["7d", "7 days"], ["", "ever"]])),
  field("Answer", input("rcode", { placeholder: "SERVFAIL", size: "9" })),
  field("Lists", choice("blocked", [["", "any"], ["true", "blocked"], ["false", "not blocked"]])),
  field("At most", choice("limit", [["50", "50"], ["200", "200"], ["1000", "1000"]])),
  element("button", { type: "submit" }, "Search"));
  fill(byId("log"), heading("Query log"), search, trouble, table.node);
  return { read: async () => search.requestSubmit() };
}

function reason(entry) {
  const what = entry.blocked ? "■ blocked" : SOURCES[entry.source] ?? entry.source;
  const whose = entry.list ?? entry.upstream;
  return whose ? `${what}: ${whose}` : what;
}

/** Whether it is all of a client's address, neither a hash nor the first address of a network. */
function isWhole(client, { ipv4_prefix: ipv4Prefix, ipv6_prefix: ipv6Prefix }) {
  if (client.startsWith("#")) return false;
  return client.includes(":") ? ipv6Prefix === 128 : ipv4Prefix === 32;
}
