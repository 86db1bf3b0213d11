// Groups of clients: views of the configuration, and the client table that changes at run time.

import { get, may, parameters, post, remove } from "./api.js";
import { byId, change, choice, element, field, fill, form, heading, options } from "./dom.js";
import { end } from "./format.js";
import { Paged, removal } from "./names.js";
import { Table } from "./tables.js";

/** Makes the panels. `read` brings them up to date. */
export function clientsPage() {
  const reads = [];
  // The views that a client can be put into.
  const view = choice("view", []);
  if (may("get /api/v1/views")) reads.push(views((names) => options(view, names.map((name) => [name, name]))));
  if (may("get /api/v1/clients")) reads.push(table(view));
  return { read: async () => { for (const read of reads) await read(); } };
}

/** The client table has the clients of views without prefixes of their own; those in no view have the default one. */
const clientsOf = ({ name, clients }) =>
  clients.join(", ") || (name === "default" ? "all that are in no other view" : "those of the client table");

/** `tell` gets the names of the views. */
function views(tell) {
  const all = new Table([
    { title: "view", name: true, of: (one) => one.name },
    { title: "clients", name: true, of: clientsOf },
    { title: "upstreams", of: (one) => one.group },
    { title: "queries/s", right: true, of: (one) => String((one.queries_per_second ?? "as [ratelimit]") || "no limit") },
    { title: "lists", name: true, of: (one) => (one.lists ?? []).join(", ") },
  ], { key: (one) => one.name, empty: "There are no views.", caption: "Views" });
  fill(byId("views"), heading("Views", "of the configuration"), all.node);
  return async () => {
    const { views: found } = await get("/api/v1/views");
    all.update(found);
    tell(found.map((one) => one.name));
  };
}

function table(view) {
  const input = (name, more) => element("input", { name, required: true, spellcheck: "false", autocapitalize: "none", ...more });
  const path = (one) => `/api/v1/clients${parameters({ prefix: one.prefix })}`;
  const paged = new Paged("/api/v1/clients", "clients", [
    { title: "prefix", name: true, of: (one) => one.prefix },
    { title: "view", name: true, of: (one) => one.view },
    { title: "holds", of: end },
    ...removal("delete /api/v1/clients", (one) => remove(path(one)), () => paged.read()),
  ], { key: (one) => one.prefix, empty: "The client table is empty.", caption: "Client table" });
  const put = form({ "data-route": "post /api/v1/clients" }, async (values, node) => {
    const client = { prefix: values.prefix.trim(), view: values.view.trim() };
    if (await change(post("/api/v1/clients", { clients: [client] }))) {
      node.reset();
      await paged.read();
    }
  },
  field("Prefix", input("prefix", { placeholder: "192.0.2.7" })),
  field("View", view),
  element("button", { type: "submit" }, "Put"));
  // Without a client table there is nothing to put clients into, nor to find them in.
  const forms = element("div", {}, put, finder());
  fill(byId("profiles"), element("h2", {}, "Client table", paged.total), forms, paged.node);
  return async () => {
    try {
      await paged.read();
      forms.hidden = false;
    } catch (problem) {
      forms.hidden = problem.status === 409;
      paged.table.update([]);
      fill(paged.table.empty, problem.message);
    }
  };
}

/** The view of an address, and the prefix that decides. */
function finder() {
  const result = element("output", {});
  const find = form({ "data-route": "get /api/v1/clients/{address}" }, async ({ address }) => {
    try {
      const found = await get(`/api/v1/clients/${encodeURIComponent(address.trim())}`);
      const where = found.decided_by === "clients" ? "the client table" : "the configuration";
      const by = found.prefix ? `by ${found.prefix} of ${where}` : "by no prefix";
      fill(result, `${found.address} is in view ${found.view}, ${by}`);
    } catch (problem) {
      fill(result, `✕ ${problem.message}`);
    }
  },
  field("Address", element("input", { name: "address", required: true, class: "search", placeholder: "192.0.2.7" })),
  element("button", { type: "submit" }, "Which view?"), result);
  return find;
}
