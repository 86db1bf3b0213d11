//! The tables of heavy hitters, in lines that no other table needs. `--once` has none: its text goes into reports of faults, and
//! names and addresses of clients stay out of these.

use pmdns_control::Hitter;
use pmdns_control::hitters::Hitters;
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
    tables: [Option<Hitters>; TABLES.len()],
    turn: usize,
    /// The instance counts nothing, so it is not asked again.
    is_refused: bool,
}

impl Tops {
    /// Asks for one of the tables: the other one the next time.
    pub(super) fn look<E>(&mut self, ask: impl FnOnce(&str) -> Result<String, E>) {
        if self.is_refused {
            return;
        }
        let (what, ..) = TABLES[self.turn];
        let Ok(text) = ask(&format!("hitters {what} 1m {ROWS}")) else { return };
        self.is_refused = text.starts_with("error:");
        self.tables[self.turn] = serde_json::from_str(&text).ok();
        self.turn = (self.turn + 1) % TABLES.len();
    }

    /// The tables that there are, if all are.
    pub(super) fn panels(&self) -> Option<[Panel; TABLES.len()]> {
        let [Some(names), Some(clients)] = &self.tables else { return None };
        let panel = |(_, title, head): (Hitter, &'static str, &'static str), top: &Hitters| {
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
            tops.look(|line| {
                asked.push(line.to_owned());
                serde_json::to_string(&Hitters::default())
            });
        }
        assert_eq!(asked, ["hitters names 1m 40", "hitters clients 1m 40", "hitters names 1m 40"]);
        assert!(tops.panels().is_some());
        tops.look(|_| Err(()));
        assert!(tops.panels().is_some(), "an instance that does not answer may come back");
        tops.look(|_| Ok::<_, ()>("error: nothing is counted\n".to_owned()));
        assert!(tops.panels().is_none());
        tops.look(|_| -> Result<String, ()> { panic!("it is asked again") });
    }
}
