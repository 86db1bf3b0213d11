// The page that stays open all day: what the instance does, second by second.

import { Chart } from "./chart.js";
import { byId, element, fill, heading, write } from "./dom.js";
import { bytes, count, countOrDot, micros, percent, perSecond } from "./format.js";
import { Table } from "./tables.js";
import { Upstreams } from "./upstreams.js";

const TILES = ["queries", "hit ratio", "hit p99", "miss p99", "dropped", "SERVFAIL",
    "upstream failures", "frames in use", "cached answers"];
const sum = (values) => values.reduce((all, one) => all + one, 0);

/** What a part of a bar means. */
const swatch = (kind) => element("span", { class: "swatch" }, element("i", { class: kind }), kind);

export class Overview {
  constructor() {
    this.tiles = TILES.map((title) => {
      const value = element("dd", {}, "–");
      byId("tiles").append(element("div", {}, element("dt", {}, title), value));
      return value;
    });
    this.charts = [
      new Chart(byId("chart-rate"), {
        title: "Queries a second", text: count, scale: "linear",
        series: [
          { name: "hits", of: (one) => one.hits },
          { name: "local", of: (one) => one.local },
          { name: "misses", of: (one) => one.misses },
        ],
      }),
      new Chart(byId("chart-ratio"), {
        title: "Answered by the cache", text: (share) => percent(share, 0), scale: "share",
        series: [{ name: "hit ratio", of: (one) => one.hitRatio }],
      }),
      new Chart(byId("chart-latency"), {
        title: "Latency", text: micros, scale: "log",
        series: [
          { name: "hit p50", of: (one) => one.hitP50 },
          { name: "hit p99", of: (one) => one.hitP99 },
          { name: "miss p99", of: (one) => one.missP99 },
        ],
      }),
    ];
    this.#tables();
  }

  #tables() {
    const put = (id, title, remark, columns, options) => {
      const table = new Table(columns, { caption: title, ...options });
      fill(byId(id), heading(title, remark), table.node);
      return table;
    };
    const number = (title, of) => ({ title, of, right: true });
    this.stages = put("stages", "Stages", "cycles of the clock for a packet", [
      { title: "stage", of: (one) => one.stage },
      { title: "", bar: (one) => [["stage-part", one.width]] },
      number("cycles", (one) => (one.packets > 0 ? (one.cycles < 1000 ? one.cycles.toFixed(1) : count(one.cycles)) : "·")),
      number("packets/s", (one) => countOrDot(one.packets)),
      number("batch", (one) => (one.batch > 0 ? one.batch.toFixed(1) : "·")),
    ], { key: (one) => one.stage });
    this.cores = put("cores", "Data cores", ["busy", "resolving", "housekeeping"].map(swatch), [
      { title: "core", of: (one) => String(one.core) },
      { title: "", bar: (one) => [["busy", one.busy], ["resolving", one.resolving], ["housekeeping", one.housekeeping]] },
      number("busy", (one) => percent(one.busy)),
      number("resolving", (one) => percent(one.resolving)),
      number("idle", (one) => percent(one.idle)),
      number("packets/s", (one) => countOrDot(one.packets)),
    ], { key: (one) => one.core });
    this.upstreams = new Upstreams();
    this.ports = put("ports", "Ports", null, [
      { title: "port", name: true, of: (one) => one.name },
      { title: "link", of: (one) => (one.isUp ? "● up" : "▲ down"), mark: (one) => (one.isUp ? "good" : "bad") },
      number("rx/s", (one) => countOrDot(one.rx)),
      number("rx bit/s", (one) => countOrDot(one.rxBits)),
      number("tx/s", (one) => countOrDot(one.tx)),
      number("tx bit/s", (one) => countOrDot(one.txBits)),
      number("lost/s", (one) => countOrDot(one.lost)),
    ], { key: (one) => one.name });
    this.rings = put("rings", "Rings", "what their consumers found", [
      { title: "from → to", of: (one) => one.ends },
      { title: "carries", of: (one) => one.carries },
      number("taken/s", (one) => countOrDot(one.taken)),
      number("mean", (one) => one.mean.toFixed(1)),
      number("most", (one) => count(one.most)),
      number("of", (one) => count(one.capacity)),
      number("refused/s", (one) => countOrDot(one.refused)),
    ], { key: (one) => `${one.ends} ${one.carries}`, empty: "No ring has carried anything." });
    this.drops = put("drops", "Drops", "by reason", [
      { title: "reason", of: (one) => one.reason },
      number("drops/s", (one) => countOrDot(one.rate)),
      number("since start", (one) => count(one.total)),
    ], { key: (one) => one.reason, empty: "Nothing was dropped." });
    this.cache = put("cache", "Cache", null, [
      { title: "shard", of: (one) => String(one.shard) },
      { title: "", bar: (one) => [["stage-part", one.fill]] },
      number("used", (one) => `${bytes(one.used)} of ${bytes(one.size)}`),
      number("entries", (one) => count(one.entries)),
      number("evicted", (one) => count(one.evicted)),
    ], { key: (one) => one.shard });
    this.streams = put("streams", "Clients over streams", null, [
      { title: "transport", of: (one) => one.transport },
      number("open", (one) => count(one.open)),
      number("accepted/s", (one) => countOrDot(one.accepted)),
      number("queries/s", (one) => countOrDot(one.queries)),
      number("refused/s", (one) => countOrDot(one.refused)),
    ], { key: (one) => one.transport });
  }

  /** What a sample of the history keeps. */
  static sample(rates, at) {
    const { hits, local, misses, hitRatio, latency } = rates;
    return { at, hits, local, misses, hitRatio, hitP50: latency.hit.p50, hitP99: latency.hit.p99, missP99: latency.miss.p99 };
  }

  show(report, rates, samples) {
    const failures = sum(rates.upstreams.map((one) => one.failures));
    const values = [
      perSecond(rates.queries),
      percent(rates.hitRatio),
      micros(rates.latency.hit.p99),
      micros(rates.latency.miss.p99),
      perSecond(rates.dropped),
      `${perSecond(rates.servfail.rate)} · ${percent(rates.servfail.share)}`,
      perSecond(failures),
      percent(report.frames.in_use / Math.max(1, report.frames.capacity)),
      count(sum(report.cache.map((shard) => shard.entries))),
    ];
    values.forEach((value, index) => write(this.tiles[index], value));
    this.tiles[4].dataset.mark = rates.dropped > 0 ? "bad" : "";
    this.tiles[5].dataset.mark = rates.servfail.rate > 0 ? "bad" : "";
    this.tiles[6].dataset.mark = failures > 0 ? "bad" : "";
    this.charts.forEach((chart) => chart.draw(samples));
    const most = Math.max(1, ...rates.stages.map((stage) => stage.cycles));
    this.stages.update(rates.stages.map((stage) => ({ ...stage, width: stage.cycles / most })));
    this.cores.update(rates.cores);
    this.upstreams.show(rates.upstreams);
    this.ports.update(rates.ports);
    this.rings.update(rates.rings);
    this.drops.update(rates.drops.slice(0, 12));
    this.cache.update(report.cache.map((shard, index) => ({
      shard: index,
      fill: shard.bytes_used / Math.max(1, shard.bytes_total),
      used: shard.bytes_used,
      size: shard.bytes_total,
      entries: shard.entries,
      evicted: shard.evicted,
    })));
    this.streams.update(rates.streams);
    byId("streams").hidden = rates.streams.length === 0;
  }
}
