// Block lists: those of the file, and those that are added at run time.

import { get, may, post, remove } from "./api.js";
import { byId, change, choice, confirmed, element, field, fill, form, heading } from "./dom.js";
import { count, duration, end } from "./format.js";
import { Table } from "./tables.js";

const ADD = "post /api/v1/lists";

/** Makes the panel. `views`: the choice of views in its form. */
export function listsPanel(views) {
  const read = async () => {
    const { lists, addable = true } = await get("/api/v1/lists");
    table.update(lists);
    add.hidden = !addable || !may(ADD);
    closed.hidden = addable || !may(ADD);
  };
  const nameOf = (row) => row.file.split("/").at(-1);
  const path = (row) => `/api/v1/lists/${encodeURIComponent(nameOf(row))}`;
  const act = async (request) => { if (await change(request)) await read(); };
  const drop = async (row) => {
    if (await confirmed(`Remove the list ${nameOf(row)}? Its names are blocked no more.`, "Remove")) await act(remove(path(row)));
  };
  const small = (label, onclick) => element("button", { type: "button", class: "small", onclick }, label);
  const actions = (row) => element("span", { class: "buttons" },
    row.url && !row.left_out && may("post /api/v1/lists/{name}/refresh")
      && small("Refresh", () => act(post(`${path(row)}/refresh`))),
    row.added && may("delete /api/v1/lists/{name}") && small("Remove", () => drop(row)));
  const table = new Table([
    { title: "file", name: true, of: (one) => one.file },
    { title: "from", name: true, of: (one) => one.url ?? "" },
    { title: "names", right: true, of: (one) => ((one.names ?? null) === null ? "–" : count(one.names)) },
    { title: "unknown lines", right: true, of: (one) => count(one.unknown_lines) },
    { title: "age", right: true, of: (one) => ((one.age_seconds ?? null) === null ? "unreadable" : duration(one.age_seconds)) },
    { title: "views", of: (one) => one.views.join(", ") || "all" },
    { title: "holds", of: end },
    {
      title: "fetched",
      name: true,
      of: fetched,
      mark: (one) => (one.left_out || one.last_error ? "bad" : ""),
    },
    { title: "", node: actions },
  ], { key: (one) => `${one.file} ${one.url} ${one.added}`, empty: "There is no block list.", caption: "Block lists" });
  const add = addition(views, read);
  const closed = element("p", { class: "quiet", hidden: true }, "To add lists here, name a folder for them: control.lists.");
  fill(byId("lists"), heading("Block lists", "a reload reads them anew"), add, closed, table.node);
  return { read };
}

function fetched(one) {
  if (one.left_out) return `▲ left out at the start: ${one.left_out}`;
  return one.last_error ? `▲ ${one.failing} times not: ${one.last_error}` : one.url ? "● yes" : "";
}

/** The form that adds a list. */
function addition(views, read) {
  const text = (name, more = {}) => element("input", { name, spellcheck: "false", autocapitalize: "none", ...more });
  return form({ id: "list-form", "data-route": ADD }, async (values, node) => {
    const list = { name: values.name.trim(), url: values.url.trim(), refresh_seconds: Number(values.every), views: views.chosen };
    if (values.address.trim()) list.address = values.address.trim();
    if (await change(post("/api/v1/lists", list))) {
      node.reset();
      views.clear();
    }
    // One that was added may not be there yet.
    await read();
  },
  field("Name", text("name", { required: true, placeholder: "ads", size: "12" })),
  field("URL", text("url", { required: true, type: "url", placeholder: "HTTPS", size: "34" })),
  field("Server", text("address", { placeholder: "by its name", size: "16" })),
  field("Every", choice("every", [["86400", "day"], ["3600", "hour"], ["604800", "week"]])),
  views.node,
  element("button", { type: "submit" }, "Add"));
}
