//! `pmdns top`: a running instance on a terminal, second by second.

mod edge;
mod panel;
mod screen;
mod text;

use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::widgets::Widget as _;

use super::report::Report;
use super::socket::{ANSWER_PATIENCE, SocketError, ask};
pub use screen::Screen;
pub(super) use text::{amount, percent, time, uneven};

/// The text of the note while there is no other.
const HELP: &str = "q quits, space pauses";
/// Columns of the frame that `--once` prints.
const ONCE_WIDTH: u16 = 140;
/// The shortest and the longest interval.
pub const INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The instance does not answer.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The answer is no report.
    #[error(
        "this pmdns cannot read the report of the instance at the socket: {0}; is it the same version?"
    )]
    Report(#[from] serde_json::Error),
    /// The output is a file or a pipe.
    #[error(
        "standard output is no terminal; `pmdns top --once` prints one frame to files and pipes"
    )]
    NoTerminal,
    /// The terminal fails.
    #[error("the terminal: {0}")]
    Terminal(#[from] io::Error),
}

/// The report of the instance that listens at `socket`.
pub fn read(socket: &Path) -> Result<Report, TopError> {
    Ok(serde_json::from_str(&ask(socket, "stats", ANSWER_PATIENCE)?)?)
}

/// Prints the rates of one `interval`, as text.
pub fn print_once(socket: &Path, interval: Duration, out: &mut impl Write) -> Result<(), TopError> {
    let earlier = read(socket)?;
    std::thread::sleep(interval);
    let screen = Screen::between(&earlier, &read(socket)?);
    let mut buffer = Buffer::empty(Rect::new(0, 0, ONCE_WIDTH, screen.height(ONCE_WIDTH)));
    screen.render(buffer.area, &mut buffer);
    for line in buffer.content().chunks(usize::from(ONCE_WIDTH)) {
        let text: String = line.iter().map(|cell| cell.symbol()).collect();
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

/// Shows the instance until `q` is pressed. The terminal is as before when this returns, whatever happened.
pub fn run(socket: &Path, interval: Duration) -> Result<(), TopError> {
    if !io::stdout().is_terminal() {
        return Err(TopError::NoTerminal);
    }
    // Asked before the screen changes, so that the user sees an error.
    let first = read(socket)?;
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, socket, interval, first);
    ratatui::restore();
    shown
}

fn show(
    terminal: &mut DefaultTerminal,
    socket: &Path,
    interval: Duration,
    first: Report,
) -> Result<(), TopError> {
    // The first screen shows the mean since the start; later ones compare two reports.
    let mut screen = Screen::between(&Report::default(), &first);
    screen.note(HELP, false);
    let mut last = first;
    let (mut next, mut paused) = (Instant::now() + interval, false);
    loop {
        terminal.draw(|frame| frame.render_widget(&screen, frame.area()))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            match event::read()? {
                Event::Key(key) if ends(key) => return Ok(()),
                Event::Key(key) if is_press(key, KeyCode::Char(' ')) => {
                    paused = !paused;
                    screen.note(if paused { "paused" } else { HELP }, paused);
                }
                // Anything else may have changed the size: draw again.
                _ => {}
            }
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + interval;
        if paused {
            continue;
        }
        // An instance that does not answer may come back, so say so and ask again.
        match read(socket) {
            Ok(report) => {
                screen = Screen::between(&last, &report);
                screen.note(HELP, false);
                last = report;
            }
            Err(error) => screen.note(error.to_string(), true),
        }
    }
}

fn ends(key: KeyEvent) -> bool {
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    interrupt || is_press(key, KeyCode::Char('q')) || is_press(key, KeyCode::Esc)
}

fn is_press(key: KeyEvent, code: KeyCode) -> bool {
    key.kind == KeyEventKind::Press && key.code == code
}
