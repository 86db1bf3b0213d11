// Lines over time. Each series has a colour, a pattern of dashes, and a sign beside its name: never the colour alone.

import { drawn, element, fill, write } from "./dom.js";
import { clock } from "./format.js";

const HEIGHT = 132;
const ROOM = { top: 6, right: 8, bottom: 18, left: 48 };
const DASHES = ["", "6 3", "2 3"];
const SIGNS = ["●", "▲", "■"];
// The shortest that holds all samples is shown.
const SPANS_MIN = [1, 2, 5, 10];

export class Chart {
  #at = null;

  /** Series have a `name` and `of(sample)`. `text` writes a value. `scale`: `linear`, `log` or `share`. */
  constructor(figure, { title, series, text, scale }) {
    Object.assign(this, { series, text, scale, samples: [], width: 0 });
    const keys = series.map((one, index) => {
      const value = element("b", {}, "–");
      return { value, node: element("span", { class: `key s${index + 1}` }, `${SIGNS[index]} ${one.name} `, value) };
    });
    this.keys = keys;
    this.when = element("small", {});
    const caption = element("figcaption", {}, element("h2", {}, title, this.when), keys.map((key) => key.node));
    this.drawing = drawn("svg", { height: HEIGHT, role: "img", "aria-label": `${title} over time` });
    this.drawing.addEventListener("pointermove", (event) => this.#point(event.offsetX));
    this.drawing.addEventListener("pointerleave", () => this.#point(null));
    fill(figure, caption, this.drawing);
    new ResizeObserver(([seen]) => {
      this.width = Math.floor(seen.contentRect.width);
      this.draw(this.samples);
    }).observe(figure);
  }

  #point(at) {
    this.#at = at;
    this.draw(this.samples);
  }

  draw(samples) {
    this.samples = samples;
    if (this.width < 80 || this.drawing.closest("[hidden]")) return;
    const inner = this.width - ROOM.left - ROOM.right;
    const end = samples.at(-1)?.at ?? 0;
    const age = (end - (samples[0]?.at ?? end)) / 60_000;
    const span = SPANS_MIN.find((minutes) => age <= minutes) ?? SPANS_MIN.at(-1);
    const x = (at) => ROOM.left + inner * (1 - (end - at) / (span * 60_000));
    const values = this.series.map((one) => samples.map((sample) => one.of(sample)));
    const axis = axisFor(this.scale, values.flat().filter((value) => value !== null));
    const y = (value) => ROOM.top + (HEIGHT - ROOM.top - ROOM.bottom) * (1 - axis.place(value));
    this.drawing.setAttribute("width", this.width);
    const grid = axis.marks.map((mark) => [
      drawn("line", { class: "mark", x1: ROOM.left, x2: this.width - ROOM.right, y1: y(mark), y2: y(mark) }),
      drawn("text", { x: ROOM.left - 6, y: y(mark) + 3.5, "text-anchor": "end" }, this.text(mark)),
    ]);
    const times = [[span, "start"], [span / 2, "middle"], [0, "end"]].map(([ago, anchor]) => drawn("text", {
      x: x(end - ago * 60_000), y: HEIGHT - 4, "text-anchor": anchor,
    }, ago === 0 ? "now" : ago < 1 ? `−${ago * 60} s` : `−${ago} min`));
    const lines = values.map((list, index) => drawn("path", {
      class: `line s${index + 1}`, d: path(samples, list, x, y), "stroke-dasharray": DASHES[index],
    }));
    const shown = this.#at === null ? samples.length - 1 : nearest(samples, x, this.#at);
    const pointer = this.#at === null || shown < 0 ? null
      : upright(x(samples[shown].at));
    fill(this.drawing, grid, times, lines, pointer);
    this.keys.forEach((key, index) => write(key.value, shown < 0 ? "–" : this.text(values[index][shown])));
    write(this.when, pointer ? clock(new Date(samples[shown].at)) : "");
  }
}

/** Where the pointer is. */
const upright = (x) => drawn("line", { class: "pointer", x1: x, x2: x, y1: ROOM.top, y2: HEIGHT - ROOM.bottom });

/** A line with gaps where there is no value, or where no sample came for a while. */
function path(samples, values, x, y) {
  let text = "";
  let last = null;
  samples.forEach((sample, index) => {
    if (values[index] === null) {
      last = null;
      return;
    }
    const isNext = last !== null && sample.at - last < 5_000;
    text += `${isNext ? "L" : "M"}${x(sample.at).toFixed(1)} ${y(values[index]).toFixed(1)}`;
    // A value alone is a dot.
    if (!isNext) text += "h0.1";
    last = sample.at;
  });
  return text;
}

function nearest(samples, x, at) {
  let best = -1;
  samples.forEach((sample, index) => {
    if (best < 0 || Math.abs(x(sample.at) - at) < Math.abs(x(samples[best].at) - at)) best = index;
  });
  return best;
}

/** Where values stand from 0 to 1, and which are marked. */
function axisFor(scale, values) {
  const most = Math.max(0, ...values);
  if (scale === "share") return { place: (value) => value, marks: [0, 0.5, 1] };
  if (scale === "log") {
    const positive = values.filter((value) => value > 0);
    const low = Math.floor(Math.log10(Math.min(10, ...positive)));
    const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(1, most))));
    const step = Math.ceil((high - low) / 4);
    const marks = [];
    for (let exponent = low; exponent <= high; exponent += step) marks.push(10 ** exponent);
    return { place: (value) => (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low), marks };
  }
  const top = round(most);
  return { place: (value) => value / top, marks: [0, top / 2, top] };
}

/** The next of 1, 2, 4, 5 or 10 times a power of ten. */
function round(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return power * [1, 2, 4, 5, 10].find((factor) => factor * power >= value);
}
