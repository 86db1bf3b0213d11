// Rates between two reports of `/api/v1/stats`, as `pmdns top` computes them (pipeline/src/control/rates/).

const STAGES = ["receive", "parse", "neighbor", "acl", "ratelimit", "lookup", "policy", "encode", "transmit"];
const CLASSES = ["hit", "miss", "local", "other"];

const sum = (values) => values.reduce((all, one) => all + one, 0);
const grown = (later = 0, earlier = 0) => Math.max(0, later - earlier);
const exits = (worker, stage, exit) => worker.stages?.[stage]?.exits?.[exit] ?? 0;
const passed = (worker, isMeant) => sum((worker.links ?? []).filter((one) => isMeant(one.link)).map((one) => one.passed));

/** What happened from `earlier` to `later`. If the instance was started anew in between, what it did since. */
export function between(earlier, later) {
  const before = earlier === null || later.uptime_ticks < earlier.uptime_ticks ? { uptime_ticks: 0 } : earlier;
  const span = new Span(before, later);
  const hits = span.rate((core) => exits(core, "lookup", "encode"));
  const local = span.rate((core) => exits(core, "policy", "encode"));
  const misses = span.rate((core) => exits(core, "policy", "slow_path"));
  // Answers of rules are neither hits nor misses.
  const cached = hits + misses;
  return {
    seconds: span.seconds,
    hits,
    local,
    misses,
    queries: hits + local + misses,
    hitRatio: cached > 0 ? hits / cached : null,
    received: span.rate((core) => passed(core, (link) => link.includes(":rx"))),
    transmitted: span.rate((core) => passed(core, (link) => link.includes(":tx"))),
    dropped: span.rate(droppedBy),
    servfail: span.servfail(),
    cores: span.cores(),
    stages: span.stages(),
    rings: span.rings(),
    ports: span.ports(),
    drops: span.drops(),
    upstreams: span.upstreams(),
    streams: span.streams(),
    latency: Object.fromEntries(CLASSES.map((name) => [name, span.latency(name)])),
  };
}

class Span {
  constructor(earlier, later) {
    this.earlier = earlier;
    this.later = later;
    this.ticks = Math.max(1, later.uptime_ticks - earlier.uptime_ticks);
    this.seconds = this.ticks / later.ticks_per_second;
  }

  /** Answers in a second that are SERVFAIL, and their share of all answers. */
  servfail() {
    const before = this.earlier.answers?.rcodes ?? {};
    const later = this.later.answers?.rcodes ?? {};
    const all = sum(Object.keys(later).map((kind) => grown(later[kind], before[kind])));
    const failed = grown(later.servfail, before.servfail);
    return { rate: failed / this.seconds, share: all > 0 ? failed / all : 0 };
  }

  /** The data cores, as they were and as they are. */
  workers() {
    return this.later.workers.map((later, index) => [this.earlier.workers?.[index] ?? {}, later]);
  }

  /** Each core publishes at times of its own, so its growth is divided by the time between its publishings. */
  ticksOf(earlier, later) {
    return later.published_ticks ? grown(later.published_ticks, earlier.published_ticks) : this.ticks;
  }

  /** How much a counter grew in a second, over all data cores. */
  rate(counter) {
    return sum(this.workers().map(([earlier, later]) => {
      const ticks = this.ticksOf(earlier, later);
      return ticks === 0 ? 0 : (grown(counter(later), counter(earlier)) / ticks) * this.later.ticks_per_second;
    }));
  }

  per(later, earlier) {
    return grown(later, earlier) / this.seconds;
  }

  cores() {
    const taken = (worker) => passed(worker, (link) => link.includes(":rx") || link.startsWith("ring from"));
    return this.workers().map(([earlier, later]) => {
      const ticks = Math.max(1, this.ticksOf(earlier, later));
      const share = (name) => grown(later[name], earlier[name]) / ticks;
      const busy = Math.min(1, share("busy_ticks"));
      const resolving = Math.min(1 - busy, share("resolving_ticks"));
      const housekeeping = Math.min(1 - busy - resolving, share("housekeeping_ticks"));
      const packets = (grown(taken(later), taken(earlier)) / ticks) * this.later.ticks_per_second;
      return { core: later.core, busy, resolving, housekeeping, idle: 1 - busy - resolving - housekeeping, packets };
    });
  }

  stages() {
    const total = (report, stage, what) => sum((report.workers ?? []).map((worker) => worker.stages[stage]?.[what] ?? 0));
    const others = this.later.workers.flatMap((worker) => Object.keys(worker.stages)).filter((name) => !STAGES.includes(name));
    return [...STAGES, ...new Set(others)].map((stage) => {
      const growth = (what) => grown(total(this.later, stage, what), total(this.earlier, stage, what));
      const [packets, ticks, batches] = [growth("packets"), growth("ticks"), growth("batches")];
      const rate = this.rate((core) => core.stages?.[stage]?.packets ?? 0);
      return { stage, packets: rate, cycles: packets > 0 ? ticks / packets : 0, batch: batches > 0 ? packets / batches : 0 };
    });
  }

  rings() {
    const rings = this.later.rings.map((later, index) => {
      const earlier = this.earlier.rings?.[index] ?? {};
      const [pops, waited] = [grown(later.pops, earlier.pops), grown(later.waited, earlier.waited)];
      return {
        ends: `${later.from} → ${later.to}`,
        carries: later.carries,
        capacity: later.capacity,
        taken: this.per(later.taken, earlier.taken),
        mean: pops > 0 ? waited / pops : 0,
        most: later.max,
        refused: this.per(later.refused, earlier.refused),
        isUsed: later.pops > 0 || later.refused > 0,
      };
    });
    return rings.filter((ring) => ring.isUsed);
  }

  ports() {
    return this.later.ports.map((later, index) => {
      const earlier = this.earlier.ports?.[index] ?? {};
      const per = (name) => this.per(later[name], earlier[name]);
      return {
        name: later.name,
        driver: later.driver,
        isUp: later.link_up && !later.removed,
        rx: per("rx_frames"),
        rxBits: per("rx_bytes") * 8,
        tx: per("tx_frames"),
        txBits: per("tx_bytes") * 8,
        lost: sum(["rx_missed", "rx_errors", "rx_no_buffer", "tx_errors"].map(per)),
      };
    });
  }

  drops() {
    const [before, now] = [dropsOf(this.earlier), dropsOf(this.later)];
    const drops = [...now].filter(([, total]) => total > 0)
      .map(([reason, total]) => ({ reason, total, rate: this.per(total, before.get(reason)) }));
    return drops.sort((one, other) => other.rate - one.rate || other.total - one.total);
  }

  upstreams() {
    return this.later.upstreams.map((later, index) => {
      const before = this.earlier.upstreams?.[index];
      const earlier = before?.address === later.address ? before : {};
      const per = (...names) => sum(names.map((name) => this.per(later[name], earlier[name])));
      return {
        address: later.address,
        queries: per("queries", "tcp"),
        replies: per("replies"),
        failures: per("timeouts", "errors"),
        srttUs: later.srtt_us > 0 ? later.srtt_us : null,
        rests: later.state > 0,
      };
    });
  }

  streams() {
    const refused = (of) => (of.refused_full ?? 0) + (of.refused_prefix ?? 0) + (of.no_room ?? 0);
    const all = (this.later.streams ?? []).map((later, index) => {
      const earlier = this.earlier.streams?.[index] ?? {};
      return {
        transport: later.transport,
        open: later.open,
        accepted: this.per(later.accepted, earlier.accepted),
        queries: this.per(later.queries, earlier.queries),
        refused: this.per(refused(later), refused(earlier)),
        isUsed: later.accepted + refused(later) > 0,
      };
    });
    return all.filter((one) => one.isUsed);
  }

  /** Quantiles of the packets in between, in microseconds: upper bounds of their buckets. */
  latency(name) {
    const before = new Map(this.earlier.latency?.[name]?.buckets ?? []);
    const buckets = this.later.latency[name].buckets.map(([bound, packets]) => [bound, grown(packets, before.get(bound))]);
    const count = sum(buckets.map(([, packets]) => packets));
    const quantile = (share) => {
      let seen = 0;
      const found = buckets.find(([, packets]) => (seen += packets) >= Math.ceil(count * share) && seen > 0);
      return found ? (found[0] / this.later.ticks_per_second) * 1e6 : null;
    };
    return { count, p50: quantile(0.5), p99: quantile(0.99), p999: quantile(0.999) };
  }
}

/** Packets that a core has dropped, for whatever reason. */
function droppedBy(worker) {
  const shed = ["dropped", "miss_full", "miss_share", "replies_lost"].map((name) => worker[name] ?? 0);
  const full = (worker.links ?? []).filter((one) => !one.link.includes(":rx") && !one.link.startsWith("ring from"));
  return sum(shed) + sum(full.map((one) => one.refused));
}

/** Everything that was dropped, by reason. */
function dropsOf(report) {
  const drops = new Map();
  const add = (reason, packets = 0) => drops.set(reason, (drops.get(reason) ?? 0) + packets);
  for (const worker of report.workers ?? []) {
    for (const stage of Object.values(worker.stages)) {
      for (const [exit, packets] of Object.entries(stage.exits)) {
        if (exit.startsWith("drop.")) add(exit.slice(5), packets);
      }
    }
    for (const link of worker.links) add(link.link.startsWith("ring") ? "ring full" : "TX queue full", link.refused);
    add("miss ring full", worker.miss_full);
    add("share of miss ring", worker.miss_share);
  }
  for (const thread of report.slow_path ?? []) {
    for (const [name, packets] of Object.entries(thread)) {
      if (name.startsWith("shed_")) add(`slow path: ${name.slice(5).replaceAll("_", " ")}`, packets);
    }
  }
  return drops;
}
