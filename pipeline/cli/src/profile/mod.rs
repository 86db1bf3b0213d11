//! `pmdns profile`: watches a running instance for some time and writes one HTML page about it.

mod chart;
mod page;
mod xml;

use std::io::{self, Write as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use pmdns_config::files::WholeFile;
use time::OffsetDateTime;

use crate::rates::Rates;
use pmdns_control::client::ApiClient;
use pmdns_control::report::Report;

use crate::top::{TopError, read};

/// The page shows names of hosts and upstreams.
const MODE: u32 = 0o640;
/// How long an instance may be watched, in seconds.
pub(crate) const SECONDS: RangeInclusive<u64> = 1..=3600;
/// The most points of the plot over time. A long profile reads the counters less often.
const MAX_POINTS: u32 = 1200;
/// The shortest time between two reports. Counters are published every 10 ms.
const MIN_INTERVAL: Duration = Duration::from_millis(200);
/// The number of failed requests in a row after which the profile is given up.
const MAX_FAILURES: u32 = 5;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The instance does not answer.
    #[error(transparent)]
    Ask(TopError),
    /// It was started anew while it was watched.
    #[error("the instance was restarted while it was watched; try again")]
    Restarted,
    /// The page cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The collected reports.
#[derive(Debug)]
pub(crate) struct Profile {
    /// The first report.
    pub first: Report,
    /// The last one.
    pub last: Report,
    /// For each further report the seconds since the first one, and the rates since the one before.
    pub points: Vec<(f64, Rates)>,
    /// The host, and when the last report was made.
    pub scene: String,
}

/// Watches an instance for `length` and writes the page to `output`.
pub(crate) fn run(
    instance: &ApiClient,
    length: Duration,
    output: &Path,
) -> Result<(), ProfileError> {
    let failed = |source| ProfileError::Write { path: output.to_owned(), source };
    let first = read(instance).map_err(ProfileError::Ask)?;
    // Opened now, so that an error comes before the wait. An older page stays until the new one is written.
    let mut whole = WholeFile::create(output, MODE).map_err(failed)?;
    let start = Instant::now();
    let wait = |length| {
        std::thread::sleep(length);
        start.elapsed()
    };
    let mut profile = watch(first, length, wait, || read(instance).map_err(ProfileError::Ask))?;
    profile.scene = scene(SystemTime::now());
    whole.write_all(page::page(&profile).as_bytes()).map_err(failed)?;
    whole.finish().map(drop).map_err(failed)
}

/// Asks for reports until `length` has passed. `wait` waits, and returns the time since the start.
fn watch(
    first: Report,
    length: Duration,
    mut wait: impl FnMut(Duration) -> Duration,
    look: impl Fn() -> Result<Report, ProfileError>,
) -> Result<Profile, ProfileError> {
    let interval = (length / MAX_POINTS).max(MIN_INTERVAL);
    let mut profile = Profile::new(first);
    let (mut passed, mut failures) = (Duration::ZERO, 0);
    // The last request must have succeeded, because the page shows its report.
    while passed < length || failures > 0 {
        passed = wait(interval.min(length.saturating_sub(passed)));
        match look() {
            Ok(report) => {
                profile.add(report)?;
                failures = 0;
            }
            Err(error) if failures == MAX_FAILURES => return Err(error),
            Err(_) => failures += 1,
        }
    }
    Ok(profile)
}

/// The name of this host, and a time of the wall clock.
fn scene(now: SystemTime) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let now = OffsetDateTime::from(now);
    let (hour, minute, second) = now.to_hms();
    format!("Host {host}, until {} {hour:02}:{minute:02}:{second:02} UTC.", now.date())
}

impl Profile {
    /// A profile that begins with this report.
    fn new(first: Report) -> Self {
        Self { last: first.clone(), first, points: Vec::new(), scene: String::new() }
    }

    /// Adds another report.
    fn add(&mut self, report: Report) -> Result<(), ProfileError> {
        if report.uptime_ticks < self.last.uptime_ticks {
            return Err(ProfileError::Restarted);
        }
        let rates = Rates::between(&self.last, &report);
        let since_start = report.uptime_ticks - self.first.uptime_ticks;
        self.points.push((report.duration_of(since_start).as_secs_f64(), rates));
        self.last = report;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use quick_xml::Reader;
    use quick_xml::events::Event;

    use super::*;
    use pmdns_control::testing as fixture;

    fn profile() -> Profile {
        let (first, last) = fixture::reports();
        let mut profile = Profile::new(first);
        profile.add(last).unwrap();
        profile.scene = scene(SystemTime::UNIX_EPOCH + Duration::from_secs(1_764_000_000));
        profile
    }

    /// The texts of a page, whose elements must be closed in order.
    fn texts(page: &str) -> String {
        let mut reader = Reader::from_str(page);
        let (mut text, mut open) = (String::new(), 0);
        loop {
            match reader.read_event().unwrap_or_else(|error| panic!("{error} in {page}")) {
                Event::Start(_) => open += 1,
                Event::End(_) => open -= 1,
                Event::Text(part) => text += &part.into_inner(),
                Event::GeneralRef(name) => text += &format!("&{};", name.into_inner()),
                Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(open, 0, "every element is closed");
        text
    }

    #[test]
    fn the_page_is_well_formed_and_says_it_all() {
        let page = page::page(&profile());
        let text = texts(&page);
        for part in [
            "pmdns 1.2.3",
            "500.0 k/s",
            "98.0 %",
            "lookup",
            "70.0",
            "core 1 → core 2",
            "acl_drop",
            "192.0.2.54:53",
            "p99.9",
            "1.5 us",
            "housekeeping",
            "Latency",
            "NXDOMAIN",
            "10.0 %, 50.0 k/s",
            "Host ",
            ", until 2025-11-24 16:00:00 UTC.",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        for outside in ["<script", "src=", "href=", "url(", "@import", "http"] {
            assert!(!page.contains(outside), "the page needs {outside}");
        }
    }

    /// The page of dnsdist treated a name that a peer had chosen as markup.
    #[test]
    fn cve_2026_0396_0397_no_name_is_markup() {
        let hostile = "</td><script>alert(1)</script><img src=x onerror='a' \"b\">&amp;";
        let (first, mut last) = fixture::reports();
        last.version = hostile.to_owned();
        last.ports[0].name = hostile.to_owned();
        last.upstreams[0].address = hostile.to_owned();
        last.rings[0].from = hostile.to_owned();
        let stage = last.workers[0].stages["acl"].clone();
        last.workers[0].stages.insert(hostile.to_owned(), stage);
        let mut profile = Profile::new(first);
        profile.add(last).unwrap();
        let page = page::page(&profile);
        texts(&page);
        assert!(page.contains("&lt;script&gt;alert(1)"), "it is shown as what it is");
        for markup in ["<script", "<img", "</td><s"] {
            assert!(!page.contains(markup), "{markup}");
        }
    }

    /// A wait that takes no time, on a clock of its own.
    fn at_once() -> impl FnMut(Duration) -> Duration {
        let mut passed = Duration::ZERO;
        move |length| {
            passed += length;
            passed
        }
    }

    #[test]
    fn a_profile_ends_with_a_look_that_succeeded() {
        let (first, last) = fixture::reports();
        let looks = std::cell::Cell::new(0);
        let profile = watch(first, Duration::from_millis(1), at_once(), || {
            looks.set(looks.get() + 1);
            if looks.get() < 3 { Err(ProfileError::Restarted) } else { Ok(last.clone()) }
        });
        assert_eq!(profile.unwrap().points.len(), 1);
    }

    #[test]
    fn names_from_outside_cannot_become_markup() {
        let mut profile = profile();
        profile.last.version = "<b onload=\"x\">&'".to_owned();
        profile.last.rings[0].from = "</svg><i>".to_owned();
        profile.last.upstreams[0].address = "<script>alert(1)</script>".to_owned();
        let page = page::page(&profile);
        assert!(texts(&page).contains("&lt;b onload=&quot;x&quot;&gt;&amp;&#39;"), "{page}");
        assert!(!page.contains("<script") && !page.contains("<i>"));
    }

    #[test]
    fn an_instance_that_did_nothing_has_a_page_too() {
        let nothing = Report::default();
        let profile = Profile::new(nothing);
        let page = page::page(&profile);
        texts(&page);
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }

    #[test]
    fn a_profile_takes_as_long_as_asked_and_survives_a_failed_look() {
        let (first, last) = fixture::reports();
        let looks = std::cell::Cell::new(0);
        let profile = watch(first.clone(), Duration::from_millis(450), at_once(), || {
            looks.set(looks.get() + 1);
            if looks.get() == 1 { Err(ProfileError::Restarted) } else { Ok(last.clone()) }
        });
        assert_eq!((profile.unwrap().points.len(), looks.get()), (2, 3), "a look each 200 ms");
        let restarted = watch(last, Duration::from_millis(1), at_once(), || Ok(first.clone()));
        assert!(matches!(restarted, Err(ProfileError::Restarted)));
    }
}
