// Tables whose cells are written anew in place, so that a selection and the focus stay.

import { element, write } from "./dom.js";

/**
 * Columns have a `title`, and `of(row)`: a text, a number's text (`right`), a node (`node`: made once for a row, and brought up
 * to date by `renew(node, row)`), or a bar: `bar(row)` gives parts `[class, share of the width]`. `key(row)` tells rows apart.
 */
export class Table {
  #rows = new Map();

  constructor(columns, { key, empty = "Nothing.", caption = null }) {
    this.columns = columns;
    this.key = key;
    const heads = columns.map((column) => element("th", { scope: "col", class: cellClass(column) }, column.title));
    this.body = element("tbody");
    this.empty = element("p", { class: "quiet empty", hidden: true }, empty);
    const table = element("table", { "aria-label": caption }, element("thead", {}, element("tr", {}, heads)), this.body);
    this.node = element("div", { class: "scroll" }, table, this.empty);
  }

  update(rows) {
    const before = this.#rows;
    this.#rows = new Map();
    for (const row of rows) {
      const key = this.key(row);
      const line = before.get(key) ?? this.#line(row);
      this.#rows.set(key, line);
      this.columns.forEach((column, index) => this.#write(line.cells[index], column, row));
    }
    const nodes = [...this.#rows.values()].map((line) => line.node);
    const isSame = nodes.length === this.body.children.length && nodes.every((node, at) => this.body.children[at] === node);
    if (!isSame) this.body.replaceChildren(...nodes);
    this.empty.hidden = rows.length > 0;
    this.body.parentNode.hidden = rows.length === 0;
  }

  #line(row) {
    const cells = this.columns.map((column, index) => {
      const content = column.node ? column.node(row) : null;
      return element(index === 0 ? "th" : "td", { class: cellClass(column), scope: index === 0 ? "row" : null }, content);
    });
    return { node: element("tr", {}, cells), cells };
  }

  #write(cell, column, row) {
    if (column.bar) {
      drawBar(cell, column.bar(row));
    } else if (!column.node) {
      write(cell, column.of(row));
    } else if (column.renew) {
      column.renew(cell.firstElementChild, row);
    }
    if (column.mark) cell.dataset.mark = column.mark(row);
  }
}

function cellClass(column) {
  const classes = [column.right && "right", column.bar && "barred", column.name && "name"].filter(Boolean);
  return classes.length > 0 ? classes.join(" ") : null;
}

/** A bar of parts beside each other, drawn at fixed places, so that a part keeps its transition. */
function drawBar(cell, parts) {
  let bar = cell.firstElementChild;
  if (!bar) {
    bar = element("div", { class: "bar" }, parts.map(([kind]) => element("i", { class: kind })));
    cell.append(bar);
  }
  parts.forEach(([, share], index) => {
    bar.children[index].style.width = `${(Math.min(1, Math.max(0, share)) * 100).toFixed(2)}%`;
  });
}
