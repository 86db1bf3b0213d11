// Names that are blocked and allowed, local records, and the purge of answers.

import { get, may, parameters, post, remove } from "./api.js";
import { byId, change, choice, confirmed, element, field, fill, form, heading } from "./dom.js";
import { count, moment, whose } from "./format.js";
import { listsPanel } from "./lists.js";
import { Table } from "./tables.js";
import { ViewChoice } from "./views.js";

const text = (name, more = {}) => element("input", { name, spellcheck: "false", autocapitalize: "none", ...more });
const button = (label) => element("button", { type: "submit" }, label);

/** A table that is read in parts. */
export class Paged {
  constructor(path, list, columns, options) {
    Object.assign(this, { path, list, rows: [], next: null });
    this.table = new Table(columns, options);
    this.total = element("small", {});
    this.more = element("button", { type: "button", hidden: true, onclick: () => this.read(this.next) }, "More");
    this.node = element("div", {}, this.table.node, this.more);
  }

  async read(after = null) {
    const page = await get(`${this.path}${parameters({ after, limit: 100 })}`);
    this.rows = after === null ? page[this.list] : [...this.rows, ...page[this.list]];
    this.next = page.next ?? null;
    this.table.update(this.rows);
    this.more.hidden = this.next === null;
    fill(this.total, `${count(page.total)} in all`);
  }
}

/** A column with the button that takes a row back, for those who may. */
export function removal(route, send, after) {
  return takingBack(route, async (row) => { if (await change(send(row))) await after(); });
}

function takingBack(route, take) {
  const remover = (row) => element("button", { type: "button", class: "small", onclick: () => take(row) }, "Remove");
  return may(route) ? [{ title: "", node: remover, right: true }] : [];
}

const entryPath = ({ name, views }) => `/api/v1/entries/${encodeURIComponent(name)}${parameters({ view: views?.[0] })}`;

/** The entries as a request has them. */
const asked = (entries) =>
    entries.map(({ name, kind, scope, action, views }) => ({ name, kind, scope, action, views: views ?? [] }));

/** The entries of a request, one for each view. `*.x` is `x` and what is below. */
const ofEachView = (entry) => (entry.views.length === 0 ? [entry] : entry.views.map((view) => ({ ...entry, views: [view] })));

const placeOf = (views) => ((views ?? []).length === 0 ? "for all clients" : `in view ${views.join(", ")}`);

/** Sets an entry, after a question if it lifts blocks. */
async function setEntry(entry, after) {
  const what = entry.scope === "suffix" ? `${entry.name} and all names below it` : entry.name;
  const question = `Let ${what} pass ${placeOf(entry.views)}, whatever lists say?`;
  if (entry.kind === "allow" && !(await confirmed(question, "Allow"))) return false;
  return decideNow(entry, after);
}

/** Whether an entry is about the names below its own as well. */
const isWide = ({ name, scope }) => scope === "suffix" || name.startsWith("*.");

/**
 * Sets an entry. The notice can undo it. `after` is called after each change. Only the answer says what the entry replaces. So the
 * question about a wider block comes behind it, and "Cancel" sets that block again.
 */
export async function decideNow(entry, after = async () => {}) {
  const undo = async ({ before = [] }) => {
    const had = (one) => before.some((old) => (old.views?.[0] ?? null) === (one.views[0] ?? null));
    for (const one of ofEachView(entry).filter((one) => !had(one))) await change(remove(entryPath(one)));
    if (before.length > 0) await change(post("/api/v1/entries", { entries: asked(before) }));
    await after();
  };
  const request = post("/api/v1/entries", { entries: [entry] });
  if (!(await change(request, undo))) return false;
  const answer = await request;
  const isLifted = (old) => old.kind === "block" && isWide(old) && !isWide(entry);
  const question = `This replaces the block of ${entry.name} and all names below it. Lift the block of the names below?`;
  if ((answer.before ?? []).some(isLifted) && !(await confirmed(question, "Lift"))) {
    await undo(answer);
    return false;
  }
  await after();
  return true;
}

/** Removes an entry, after a question if it blocks. */
async function removeEntry(entry, after) {
  const question = `Lift the block of ${entry.name} ${placeOf(entry.views)}?`;
  if (entry.kind === "block" && !(await confirmed(question, "Lift"))) return;
  const undo = async () => {
    await change(post("/api/v1/entries", { entries: asked([entry]) }));
    await after();
  };
  if (await change(remove(entryPath(entry)), undo)) await after();
}

const KINDS = { block: ["■ block", "bad"], allow: ["● allow", "good"] };

function entries(views) {
  const paged = new Paged("/api/v1/entries", "entries", [
    { title: "name", name: true, of: (one) => one.name },
    { title: "what", of: (one) => KINDS[one.kind][0], mark: (one) => KINDS[one.kind][1] },
    { title: "names below", of: (one) => (one.scope === "suffix" ? "yes" : "no") },
    { title: "answer", of: (one) => (one.kind === "block" ? one.action : "") },
    { title: "views", of: (one) => (one.views ?? []).join(", ") || "all" },
    { title: "by", of: whose },
    { title: "since", of: (one) => moment(one.since) },
    ...takingBack("delete /api/v1/entries/{name}", (one) => removeEntry(one, () => paged.read())),
  ], {
    key: (one) => `${one.name} ${(one.views ?? []).join(" ")} ${one.since}`,
    empty: "No name is blocked or allowed at run time.",
    caption: "Blocked and allowed names",
  });
  const add = form({ id: "entry-form", "data-route": "post /api/v1/entries" }, async (values, node) => {
    const scope = values.below ? "suffix" : "exact";
    const entry = { name: values.name.trim(), kind: values.kind, scope, action: values.action, views: views.chosen };
    if (await setEntry(entry, () => paged.read())) {
      node.reset();
      views.clear();
    }
  },
  field("Name", text("name", { required: true, placeholder: "ads.example.com" })),
  field("What", choice("kind", [["block", "block"], ["allow", "allow"]])),
  field("Answer", choice("action", ["nxdomain", "nodata", "refused", "null", "drop"].map((one) => [one, one]))),
  element("label", { class: "check" }, element("input", { type: "checkbox", name: "below" }), "and names below"),
  views.node,
  button("Set"));
  fill(byId("entries"), element("h2", {}, "Blocked and allowed names", paged.total), add, paged.node);
  return paged;
}

function records() {
  const path = (one) => `/api/v1/local${parameters({ name: one.name, type: one.type })}`;
  const paged = new Paged("/api/v1/local", "records", [
    { title: "name", name: true, of: (one) => one.name },
    { title: "type", of: (one) => one.type },
    { title: "TTL", right: true, of: (one) => String(one.ttl) },
    { title: "data", name: true, of: (one) => one.data },
    { title: "by", of: whose },
    { title: "since", of: (one) => moment(one.since) },
    ...removal("delete /api/v1/local", (one) => remove(path(one)), () => paged.read()),
  ], {
    key: (one) => `${one.name} ${one.type} ${one.data}`,
    empty: "There is no local record of run time.",
    caption: "Local records",
  });
  const add = form({ "data-route": "post /api/v1/local" }, async (values, node) => {
    const record = { name: values.name.trim(), type: values.type.trim(), ttl: Number(values.ttl), data: values.data.trim() };
    if (await change(post("/api/v1/local", { records: [record] }))) {
      node.reset();
      await paged.read();
    }
  },
  field("Name", text("name", { required: true, placeholder: "printer.lan" })),
  field("Type", text("type", { required: true, value: "A", size: "6" })),
  field("TTL", text("ttl", { type: "number", min: "0", max: "2147483647", value: "300" })),
  field("Data", text("data", { required: true, placeholder: "192.0.2.7" })),
  button("Add"));
  fill(byId("local"), element("h2", {}, "Local records", paged.total), add, paged.node);
  return paged;
}

function purge() {
  const send = form({}, async (values, node) => {
    const order = { name: values.name.trim(), suffix: Boolean(values.below) };
    if (values.type.trim()) order.type = values.type.trim();
    const what = order.suffix ? `${order.name} and all names below it` : order.name;
    if (!(await confirmed(`Take the answers for ${what} out of the cache?`, "Purge"))) return;
    if (await change(post("/api/v1/purge", order))) node.reset();
  },
  field("Name", text("name", { required: true, placeholder: "example.com" })),
  field("Type", text("type", { placeholder: "all", size: "6" })),
  element("label", { class: "check" }, element("input", { type: "checkbox", name: "below" }), "and names below"),
  button("Purge"));
  fill(byId("purge"), heading("Purge", "answers leave the cache and are asked for again"), send);
  return { read: async () => {} };
}

/** Makes the panels. `read` brings them up to date. */
export function namesPage() {
  const choices = [new ViewChoice(), new ViewChoice()];
  const readViews = async () => {
    const { views } = await get("/api/v1/views");
    for (const one of choices) one.update(views.map((view) => view.name));
  };
  const panels = [
    ["get /api/v1/views", () => ({ read: readViews })],
    ["get /api/v1/entries", () => entries(choices[0])],
    ["get /api/v1/local", records],
    ["get /api/v1/lists", () => listsPanel(choices[1])],
    ["post /api/v1/purge", purge],
  ];
  const there = panels.filter(([route]) => may(route)).map(([, make]) => make());
  return { read: async () => { for (const panel of there) await panel.read(); } };
}
