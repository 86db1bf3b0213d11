// The configuration in use, where the file says otherwise, and what was changed at run time.

import { get, may } from "./api.js";
import { byId, element, fill, heading, write } from "./dom.js";
import { end, moment } from "./format.js";
import { Table } from "./tables.js";

/** Makes the panels. `read` brings them up to date. */
export function settingsPage() {
  const reads = [];
  if (may("get /api/v1/config/diff")) reads.push(differences());
  if (may("get /api/v1/config")) {
    const text = element("pre", { tabindex: "0", "aria-label": "Configuration in use" });
    fill(byId("running"), heading("Configuration in use", "without secrets, defaults and changes of run time"), text);
    reads.push(async () => fill(text, lines((await get("/api/v1/config")).toml)));
  }
  return { read: async () => { for (const read of reads) await read(); } };
}

/** Texts of several lines: the breaks stay, all else that is not seen is shown. */
const lines = (text) => text.split("\n").map((line) => element("span", { class: "row" }, line));

function differences() {
  const keys = new Table([
    { title: "key", name: true, of: (one) => one.key },
    { title: "in use", name: true, of: (one) => one.running ?? "–" },
    { title: "in the file", name: true, of: (one) => one.file ?? "–" },
    {
      title: "takes",
      of: (one) => (one.needs_restart ? "▲ another process" : "● a reload"),
      mark: (one) => (one.needs_restart ? "bad" : "good"),
    },
  ], { key: (one) => one.key, caption: "Keys that differ" });
  const changes = new Table([
    { title: "changed at run time", name: true, of: (one) => one.change },
    { title: "by", of: (one) => one.by },
    { title: "since", of: (one) => moment(one.since) },
    { title: "holds", of: end },
  ], {
    key: (one) => `${one.change} ${one.since} ${one.after_restart ?? false}`,
    empty: "Nothing was changed at run time.",
    caption: "Changes at run time",
  });
  const trouble = element("p", { class: "error" });
  const names = element("p", { class: "quiet" });
  fill(byId("difference"), heading("What the file does not say"), trouble, keys.node, changes.node, names);
  return async () => {
    const difference = await get("/api/v1/config/diff");
    const { error, entries, records, clients = 0, limits = 0 } = difference;
    keys.update(difference.keys);
    write(keys.empty, error ? "" : "Every key in use is as in the file.");
    changes.update(difference.changes ?? []);
    const kept = `Local records: ${records}. Clients: ${clients}. Limits: ${limits}.`;
    write(names, `Names blocked or allowed at run time: ${entries}. ${kept}`);
    fill(trouble, error ? `✕ ${error}` : "");
  };
}
