//! The tables of heavy hitters, in lines that no other table needs. `--once` has none: its text goes into reports of faults, and
//! names and addresses of clients stay out of these.

use pmdns_control::client::ClientError;
use pmdns_control::hitters::HitterTable;
use pmdns_control::{Hitter, HittersQuery, Window, ask};
use ratatui::style::Color;

use super::panel::{Column, Panel};
use super::text::{amount, percent};

/// The tables, each with its title and the heading of its names.
const TABLES: [(Hitter, &str, &str); 2] = [
    (Hitter::Names, "top names of the last minute", "name"),
    (Hitter::Clients, "top clients of the last minute", "client"),
];
/// Rows of a table at most.
const ROWS: usize = 40;

/// What was counted last.
#[derive(Clone, Debug, Default)]
pub(super) struct Tops {
    tables: [Option<HitterTable>; TABLES.len()],
    turn: usize,
    /// The instance counts nothing, so it is not asked again.
    is_refused: bool,
}

impl Tops {
    /// Asks for one of the tables: the other one the next time.
    pub(super) fn poll(
        &mut self,
        read: impl FnOnce(ask::Hitters) -> Result<HitterTable, ClientError>,
    ) {
        if self.is_refused {
            return;
        }
        let (what, ..) = TABLES[self.turn];
        let query = HittersQuery { what, window: Window::Minute, n: ROWS };
        self.tables[self.turn] = match read(ask::Hitters(query)) {
            Ok(table) => Some(table),
            Err(ClientError::Refused(_)) => {
                self.is_refused = true;
                None
            }
            Err(_) => return,
        };
        self.turn = (self.turn + 1) % TABLES.len();
    }

    /// The tables that there are, if all are.
    pub(super) fn panels(&self) -> Option<[Panel; TABLES.len()]> {
        let [Some(names), Some(clients)] = &self.tables else { return None };
        let panel = |(_, title, head): (Hitter, &'static str, &'static str), top: &HitterTable| {
            let share = |count: u64| count as f64 / top.total.max(1) as f64;
            let rows = || top.rows.iter();
            let columns = vec![
                Column::texts(head, rows().map(|row| row.key.clone())),
                Column::bars(rows().map(|row| share(row.count)), Color::Blue),
                Column::numbers("share", rows().map(|row| percent(share(row.count)))),
                Column::numbers("count", rows().map(|row| amount(row.count as f64))).rank(1),
            ];
            Panel::new(title, columns)
        };
        Some([panel(TABLES[0], names), panel(TABLES[1], clients)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_in_turn_and_a_refusal_is_the_last_question() {
        let mut tops = Tops::default();
        let mut asked = Vec::new();
        for _ in 0..3 {
            tops.poll(|one| {
                asked.push(one);
                Ok(HitterTable::default())
            });
        }
        let query = |what| ask::Hitters(HittersQuery { what, window: Window::Minute, n: 40 });
        assert_eq!(asked, [Hitter::Names, Hitter::Clients, Hitter::Names].map(query));
        assert!(tops.panels().is_some());
        tops.poll(|_| Err(ClientError::Server("late".to_owned())));
        assert!(tops.panels().is_some(), "an instance that does not answer may come back");
        tops.poll(|_| Err(ClientError::Refused("nothing is counted".to_owned())));
        assert!(tops.panels().is_none());
        tops.poll(|_| panic!("it is asked again"));
    }
}
