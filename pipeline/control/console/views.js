// The choice of views in a form. None chosen: it holds in all.

import { element, fill, write } from "./dom.js";

export class ViewChoice {
  #names = [];

  constructor() {
    this.summary = element("summary", {});
    this.boxes = element("div", {});
    this.node = element("details", { class: "views", hidden: true, onchange: () => this.#tell() }, this.summary, this.boxes);
    this.#tell();
  }

  get chosen() {
    return [...this.boxes.querySelectorAll("input:checked")].map((box) => box.value);
  }

  /** These views can be chosen. What is chosen of them stays. */
  update(names) {
    if (names.join("\n") === this.#names.join("\n")) return;
    const chosen = this.chosen;
    this.#names = names;
    fill(this.boxes, names.map((name) => element("label", { class: "check" },
      element("input", { type: "checkbox", value: name, checked: chosen.includes(name) }), name)));
    this.node.hidden = names.length < 2;
    this.#tell();
  }

  clear() {
    for (const box of this.boxes.querySelectorAll("input")) box.checked = false;
    this.node.open = false;
    this.#tell();
  }

  #tell() {
    write(this.summary, `Views: ${this.chosen.join(", ") || "all"}`);
  }
}
