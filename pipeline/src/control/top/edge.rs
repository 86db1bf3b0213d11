//! The tables of clients over streams, and of the kernel behind ports.

use super::panel::{Column, Panel};
use super::text::per_second;
use crate::control::rates::{PuntRate, StreamRate};

/// Clients over streams, if any have come.
pub(super) fn streams(rates: &[StreamRate]) -> Option<Panel> {
    let columns = vec![
        Column::texts("over", rates.iter().map(|one| one.transport.clone())),
        Column::numbers("open", rates.iter().map(|one| one.open.to_string())),
        Column::numbers("new", rates.iter().map(|one| per_second(one.accepted))).rank(1),
        Column::numbers("queries", rates.iter().map(|one| per_second(one.queries))),
        Column::alarms("refused", rates.iter().map(|one| one.refused)),
    ];
    (!rates.is_empty()).then(|| Panel::new("streams", columns))
}

/// Rates of exceptions to the kernel by class, if a port has a TAP.
pub(super) fn punts(rates: &[PuntRate]) -> Option<Panel> {
    let columns = vec![
        Column::texts("class", rates.iter().map(|one| one.class.to_owned())),
        Column::numbers("passed", rates.iter().map(|one| per_second(one.passed))),
        Column::alarms("limited", rates.iter().map(|one| one.limited)),
        Column::alarms("full", rates.iter().map(|one| one.full)).rank(1),
    ];
    (!rates.is_empty()).then(|| Panel::new("to the kernel", columns))
}
