// The configuration in use, and where the file says otherwise.

import { get, may } from "./api.js";
import { byId, element, fill, heading } from "./dom.js";
import { Table } from "./tables.js";

/** Makes the panels. `read` brings them up to date. */
export function settingsPage() {
  const reads = [];
  if (may("get /api/v1/config/diff")) reads.push(differences());
  if (may("get /api/v1/config")) {
    const text = element("pre", { tabindex: "0", "aria-label": "Configuration in use" });
    fill(byId("running"), heading("Configuration in use", "without secrets and defaults"), text);
    reads.push(async () => fill(text, lines((await get("/api/v1/config")).toml)));
  }
  return { read: async () => { for (const read of reads) await read(); } };
}

/** Texts of several lines: the breaks stay, all else that is not seen is shown. */
const lines = (text) => text.split("\n").map((line) => element("span", { class: "row" }, line));

function differences() {
  const table = new Table([
    { title: "key", name: true, of: (one) => one.key },
    { title: "in use", name: true, of: (one) => one.running ?? "–" },
    { title: "in the file", name: true, of: (one) => one.file ?? "–" },
    {
      title: "takes",
      of: (one) => (one.needs_restart ? "▲ a restart" : "● a reload"),
      mark: (one) => (one.needs_restart ? "bad" : "good"),
    },
  ], { key: (one) => one.key, empty: "The file says what is in use.", caption: "Keys that differ" });
  const trouble = element("p", { class: "error" });
  fill(byId("difference"), heading("Where the file differs"), trouble, table.node);
  return async () => {
    const { keys, error } = await get("/api/v1/config/diff");
    table.update(keys);
    fill(trouble, error ? `✕ ${error}` : "");
  };
}
