//! The report as people read it.

use std::io::{self, Write};

use super::ceiling::Limit;
use super::figures::Latency;
use super::report::{LoadReport, Phase};

/// Writes the report as a table.
pub fn print(report: &LoadReport, out: &mut impl Write) -> io::Result<()> {
    if let Some(warm_up) = &report.warm_up {
        let answered = warm_up.names - warm_up.unanswered;
        writeln!(
            out,
            "warm-up: {answered} of {} names answered in {:.1} s",
            warm_up.names, warm_up.seconds
        )?;
    }
    writeln!(
        out,
        "{:<12} {:>10} {:>7} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8} {:>7}",
        "phase",
        "target/s",
        "offered",
        "good/s",
        "loss %",
        "wrong",
        "p50 us",
        "p90 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "in flight",
        "drain ms"
    )?;
    for phase in &report.phases {
        let Latency { p50, p90, p99, p999, max, .. } = phase.latency_us;
        writeln!(
            out,
            "{:<12} {:>10} {:>6.1}% {:>10.0} {:>8.3} {:>8} {p50:>8.1} {p90:>8.1} {p99:>8.1} {p999:>8.1} {max:>9.1} {:>8.1} {:>7.1}",
            phase.name,
            phase.target_rate,
            phase.offered_share * 100.0,
            phase.goodput,
            phase.loss_share * 100.0,
            phase.wrong,
            phase.under_way.counted,
            phase.drain_ms,
        )?;
    }
    for phase in report.phases.iter().filter(|phase| !is_step(phase)) {
        details(phase, out)?;
    }
    if let Some(ceiling) = &report.ceiling {
        let limit = match ceiling.limited_by {
            Limit::Server => "the server loses too much above it",
            Limit::Generator => "the generator cannot offer more: the server's ceiling is higher",
            Limit::Maximum => "no higher rate was allowed: --max-rate",
        };
        writeln!(out, "ceiling: {} queries/s ({limit})", ceiling.rate)?;
    }
    for problem in &report.problems {
        writeln!(out, "problem: {problem}")?;
    }
    writeln!(out, "{}", if report.valid { "valid" } else { "INVALID: not a measurement" })
}

/// Steps of a search are shown in one line each.
fn is_step(phase: &Phase) -> bool {
    phase.name == super::phases::STEP
}

fn details(phase: &Phase, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{}: sent {}, refused by the port {}, withheld {}, lost {}, unexpected {}, checked in full {}, sent late p99 {:.1} us",
        phase.name,
        phase.sent,
        phase.refused,
        phase.withheld,
        phase.lost,
        phase.unexpected,
        phase.full_checks,
        phase.lateness_us.p99
    )?;
    let answers: Vec<String> =
        phase.answers.iter().map(|(verdict, count)| format!("{verdict} {count}")).collect();
    writeln!(out, "  answers: {}", answers.join(", "))?;
    for kind in phase.kinds.iter().filter(|_| phase.kinds.len() > 1) {
        writeln!(
            out,
            "  {:<13} sent {:>10} good {:>10} lost {:>8} p50 {:>8.1} p99 {:>8.1} p99.9 {:>8.1} us",
            kind.kind,
            kind.sent,
            kind.good,
            kind.lost,
            kind.latency_us.p50,
            kind.latency_us.p99,
            kind.latency_us.p999
        )?;
    }
    if let Some(upstream) = phase.upstream {
        writeln!(
            out,
            "  upstream: queries {} ({:.0}/s), answers {}, left out {}, overflowed {}, refused by the port {}",
            upstream.queries,
            upstream.queries as f64 / phase.seconds,
            upstream.answers,
            upstream.left_out,
            upstream.overflowed,
            upstream.refused
        )?;
    }
    let cpus = [("server", phase.server_cpu), ("generator", phase.own_cpu)];
    for (who, cpu) in cpus.into_iter().filter_map(|(who, cpu)| Some((who, cpu?))) {
        let (user, system) = (cpu.user_seconds, cpu.system_seconds);
        let good = phase.good.max(1) as f64;
        let each = (user + system) * 1e9 / good;
        writeln!(
            out,
            "  {who} CPU: {user:.2} s user, {system:.2} s system, {each:.0} ns a right answer"
        )?;
    }
    Ok(())
}
