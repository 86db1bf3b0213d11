// The upstreams: what they do, and what operators say of them.

import { get, may, patch } from "./api.js";
import { byId, change, confirmed, element, field, fill, heading, write } from "./dom.js";
import { countOrDot, micros } from "./format.js";
import { Table } from "./tables.js";

const ROUTE = "patch /api/v1/upstreams/{address}";

export class Upstreams {
  // By address: what `GET /api/v1/upstreams` has, and the counters do not.
  #said = new Map();
  #rates = [];

  constructor() {
    const number = (title, of) => ({ title, of, right: true });
    this.table = new Table([
      { title: "address", name: true, of: (one) => one.address },
      { title: "state", of: stateOf, mark: (one) => (one.drained || one.rests ? "bad" : "good") },
      { title: "group", of: (one) => one.group ?? "–" },
      // Only groups that are asked by turns have weights.
      number("weight", (one) => String(one.weight ?? "–")),
      number("queries/s", (one) => countOrDot(one.queries)),
      number("replies/s", (one) => countOrDot(one.replies)),
      number("failures/s", (one) => countOrDot(one.failures)),
      number("round trip", (one) => micros(one.srttUs)),
      ...(may(ROUTE) ? [{ title: "", node: (one) => this.#actions(one.address), renew: renewActions }] : []),
    ], { key: (one) => one.address, empty: "No upstream is configured.", caption: "Upstreams" });
    fill(byId("upstreams"), heading("Upstreams"), this.table.node);
  }

  /** Asks what is said of them. If that is refused, what is known stays. */
  async look() {
    if (!may("get /api/v1/upstreams")) return;
    try {
      const { upstreams } = await get("/api/v1/upstreams");
      this.#said = new Map(upstreams.map((one) => [one.address, one]));
    } catch (refused) {
      if (refused.status < 400 || refused.status === 401) throw refused;
    }
  }

  show(rates) {
    this.#rates = rates;
    this.table.update(rates.map((one) => {
      const { drained, weight, weighted, group, until_restart: passing } = this.#said.get(one.address) ?? {};
      return { ...one, drained, weight: weighted === false ? null : weight, weighted, group, passing };
    }));
  }

  #actions(address) {
    const small = (label, onclick) => element("button", { type: "button", class: "small", onclick }, label);
    return element("span", { class: "buttons" },
      small("Drain", () => this.#set(address, { drained: !this.#said.get(address)?.drained })),
      small("Weight", () => this.#weigh(address)));
  }

  async #weigh(address) {
    const { weight, group } = this.#said.get(address) ?? {};
    const input = element("input", { type: "number", min: "1", max: "100", required: true, value: String(weight ?? 1) });
    const question = `The share of ${address} in the questions of group ${group ?? "default"}, in proportion to the others'`;
    if (await confirmed(question, "Set", field("Weight", input))) await this.#set(address, { weight: Number(input.value) });
  }

  async #set(address, state) {
    if (!(await change(patch(`/api/v1/upstreams/${encodeURIComponent(address)}`, state)))) return;
    await this.look();
    this.show(this.#rates);
  }
}

function stateOf(one) {
  const end = one.passing ? ", until a restart" : "";
  if (one.drained) return `${one.rests ? "◆ drained, rests" : "◆ drained"}${end}`;
  return `${one.rests ? "▲ rests" : "● up"}${end}`;
}

function renewActions(node, one) {
  write(node.firstElementChild, one.drained ? "Resume" : "Drain");
  node.lastElementChild.hidden = !one.weighted;
}
