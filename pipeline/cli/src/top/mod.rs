//! `pmdns top`: a running instance on a terminal, second by second.

mod help;
mod hitters;
mod order;
mod panel;
mod screen;
mod text;
mod traffic;

use std::io::{self, IsTerminal as _, Write};
use std::time::{Duration, Instant};

use pmdns_control::ask;
use pmdns_control::audit::is_plain;
use pmdns_control::client::{ANSWER_PATIENCE, ApiClient, ClientError};
use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::widgets::Widget as _;

use hitters::Tops;
use order::Order;
use pmdns_control::report::Report;
pub(crate) use screen::Screen;
pub(crate) use text::{amount, percent, time, uneven};
use traffic::History;

/// The text of the note while there is no other.
const HELP: &str = "q quits, space pauses, s sorts, ? explains";
/// Columns of the frame that `--once` prints.
const ONCE_WIDTH: u16 = 140;
/// The shortest and the longest interval.
pub(crate) const INTERVALS: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(3600));

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The instance does not answer, or not with a report.
    #[error(transparent)]
    Ask(#[from] ClientError),
    /// The output is a file or a pipe.
    #[error(
        "standard output is no terminal; `pmdns top --once` prints one frame to files and pipes"
    )]
    NoTerminal,
    /// The terminal fails.
    #[error("the terminal: {0}")]
    Terminal(#[from] io::Error),
}

/// The report of an instance.
pub(crate) fn read(instance: &ApiClient) -> Result<Report, TopError> {
    Ok(instance.get_within(ask::Stats, ANSWER_PATIENCE)?)
}

/// Prints the rates of one `interval`, as text.
pub(crate) fn print_once(
    instance: &ApiClient,
    interval: Duration,
    out: &mut impl Write,
) -> Result<(), TopError> {
    let earlier = read(instance)?;
    std::thread::sleep(interval);
    print_screen(&Screen::between(&earlier, &read(instance)?), out)
}

fn print_screen(screen: &Screen, out: &mut impl Write) -> Result<(), TopError> {
    let mut buffer = Buffer::empty(Rect::new(0, 0, ONCE_WIDTH, screen.height(ONCE_WIDTH)));
    draw(screen, &mut buffer);
    for line in buffer.content().chunks(usize::from(ONCE_WIDTH)) {
        let text: String = line.iter().map(|cell| cell.symbol()).collect();
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

/// Draws a screen. Its cells go to the terminal as they are, so none keeps a character that is not seen or that reorders others.
fn draw(screen: &Screen, buffer: &mut Buffer) {
    screen.render(buffer.area, buffer);
    for cell in buffer.content.iter_mut().filter(|cell| !cell.symbol().chars().all(is_plain)) {
        cell.set_symbol("?");
    }
}

/// Shows the instance until `q` is pressed. The terminal is as before when this returns, whatever happened.
pub(crate) fn run(instance: &ApiClient, interval: Duration) -> Result<(), TopError> {
    #[expect(clippy::disallowed_methods, reason = "nothing is written")]
    let is_terminal = io::stdout().is_terminal();
    if !is_terminal {
        return Err(TopError::NoTerminal);
    }
    // Asked before the screen changes, so that the user sees an error.
    let first = read(instance)?;
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, instance, interval, first);
    ratatui::restore();
    shown
}

fn show(
    terminal: &mut DefaultTerminal,
    instance: &ApiClient,
    interval: Duration,
    first: Report,
) -> Result<(), TopError> {
    let mut view = View { earlier: Report::default(), later: first, ..View::default() };
    // The first screen shows the mean since the start; later ones compare two reports.
    let mut screen = view.screen(false);
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| draw(&screen, frame.buffer_mut()))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            match event::read()? {
                Event::Key(key) if view.ends(key) => return Ok(()),
                Event::Key(key) if view.press(key) => screen = view.screen(false),
                // Anything else may have changed the size: draw again.
                _ => {}
            }
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + interval;
        if view.is_paused {
            continue;
        }
        // An instance that does not answer may come back, so say so and ask again.
        match read(instance) {
            Ok(report) => {
                view.earlier = std::mem::replace(&mut view.later, report);
                view.tops.poll(|asked| instance.get_within(asked, ANSWER_PATIENCE));
                screen = view.screen(true);
            }
            Err(error) => screen.note(error.to_string(), true),
        }
    }
}

/// The report that is shown, in the form that the keys chose.
#[derive(Default)]
struct View {
    earlier: Report,
    later: Report,
    history: History,
    tops: Tops,
    order: Order,
    is_paused: bool,
    has_help: bool,
}

impl View {
    /// The screen. Its rates are kept for the sparklines if the report is a new one.
    fn screen(&mut self, is_new: bool) -> Screen {
        let screen = Screen::between(&self.earlier, &self.later).sorted(self.order);
        let mut screen = match is_new {
            true => screen.with_history(&mut self.history),
            false => screen.with_history(&mut self.history.clone()),
        };
        screen.show_tops(self.tops.clone());
        let note = if self.is_paused { "paused" } else { HELP };
        screen.note(format!("{} {note}", self.order.note()), self.is_paused);
        screen.show_help(self.has_help);
        screen
    }

    /// Does what a key means; `false`: it means nothing.
    fn press(&mut self, key: KeyEvent) -> bool {
        match key.code {
            _ if key.kind != KeyEventKind::Press => return false,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('?') => self.has_help = !self.has_help,
            KeyCode::Esc if self.has_help => self.has_help = false,
            _ => return false,
        }
        true
    }

    /// Whether a key ends all. Esc first closes the help.
    fn ends(&self, key: KeyEvent) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let interrupt = key.code == KeyCode::Char('c') && is_control;
        let leaves = is_press(key, KeyCode::Esc) && !self.has_help;
        interrupt || leaves || is_press(key, KeyCode::Char('q'))
    }
}

fn is_press(key: KeyEvent, code: KeyCode) -> bool {
    key.kind == KeyEventKind::Press && key.code == code
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::is_printed;
    use crate::output::tests::HOSTILE;
    use pmdns_control::testing as fixture;

    /// The text of a screen.
    fn text(screen: &Screen) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 140, 60));
        draw(screen, &mut buffer);
        let lines = buffer.content().chunks(140);
        lines.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }

    #[test]
    fn a_hostile_report_steers_no_terminal() {
        let reports: [Report; 2] = <[Report; 2]>::from(fixture::reports()).map(|mut report| {
            report.version.push_str(HOSTILE);
            report.ports[0].name.push_str(HOSTILE);
            report.upstreams[1].address.insert_str(0, HOSTILE);
            report
        });
        let mut screen = Screen::between(&reports[0], &reports[1]);
        screen.note(HOSTILE, true);
        let shown = text(&screen);
        let hostile: Vec<char> = shown.chars().filter(|c| !is_printed(*c)).collect();
        assert!(hostile.is_empty(), "{hostile:?} in {shown}");
        assert!(shown.contains("1.2.3a"), "{shown}");
    }

    #[test]
    fn esc_closes_the_help_before_it_ends() {
        let (earlier, later) = fixture::reports();
        let mut view = View { earlier, later, ..View::default() };
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        view.press(key(KeyCode::Char('?')));
        assert!(!view.ends(key(KeyCode::Esc)) && view.ends(key(KeyCode::Char('q'))));
        assert!(view.press(key(KeyCode::Esc)) && !view.has_help);
        assert!(view.ends(key(KeyCode::Esc)) && !view.press(key(KeyCode::Esc)));
    }

    #[test]
    fn keys_sort_pause_and_explain() {
        let (earlier, later) = fixture::reports();
        let mut view = View { earlier, later, ..View::default() };
        let mut press = |key: char| {
            let known = view.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
            (known, text(&view.screen(true)))
        };
        let place = |text: &str, part: &str| {
            text.find(part).unwrap_or_else(|| panic!("no {part} in {text}"))
        };
        let (known, usual) = press('x');
        assert!(!known && place(&usual, "s sorts, ? explains") > 0);
        assert!(
            place(&usual, "192.0.2.54") < place(&usual, "192.0.2.53"),
            "whom we ask most comes first"
        );
        let (known, by_name) = press('s');
        assert!(known && place(&by_name, "sorted by name") > 0);
        assert!(place(&by_name, "192.0.2.53") < place(&by_name, "192.0.2.54"));
        assert!(place(&by_name, "encode") < place(&by_name, "parse"));
        let (_, by_load) = press('s');
        assert!(
            place(&by_load, "\n   2 ") < place(&by_load, "\n   1 "),
            "the busiest core first: {by_load}"
        );
        assert!(place(&by_load, "over time ─") > 0 && place(&by_load, "█") > 0, "{by_load}");
        let (_, usual) = press('s');
        assert!(!usual.contains("sorted"));
        let (_, help) = press('?');
        assert!(place(&help, " help ") > 0 && place(&help, "publishing counters") > 0);
        assert!(!press('?').1.contains(" help "));
        assert!(place(&press(' ').1, "paused") > 0);
    }
}
