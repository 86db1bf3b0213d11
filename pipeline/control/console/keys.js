// Keys that do what buttons and links do.

import { byId, element } from "./dom.js";

const KEYS = [
  ["1 … 5", "pages, from left to right"],
  ["/", "go to the search"],
  ["p", "pause and go on"],
  ["t", "theme: as the system, dark, light"],
  ["r", "bring the page up to date"],
  ["?", "these keys"],
  ["Esc", "close"],
];

/** Listens to keys. `actions` are called by key. */
export function listen(actions) {
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, select, textarea, dialog");
    if (isTyping || event.ctrlKey || event.altKey || event.metaKey || byId("nav").hidden) return;
    const page = /^[1-5]$/.test(event.key) ? byId("nav").children[Number(event.key) - 1] : null;
    const action = page ? () => { location.hash = page.hash; } : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

export function showKeys() {
  const close = element("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const rows = KEYS.map(([key, what]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)]);
  const dialog = element("dialog", { id: "keys", "aria-label": "Keyboard shortcuts" },
    element("h2", {}, "Keys"), element("dl", { class: "facts" }, rows), element("p", { class: "buttons" }, close));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
