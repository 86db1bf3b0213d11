//! The rules of `[answers]` and `[cookies]`: what answers say besides their records.

use super::{Verdict, broken, in_range};
use crate::limits::{MAX_NSID, MAX_TEXT, MAX_UDP_SIZE, MIN_UDP_SIZE};
use crate::problem::Problem;
use crate::settings::{Answers, Cookies};

pub(super) fn check_answers(answers: &Answers) -> Verdict {
    in_range("answers.max_udp_size", answers.max_udp_size, MIN_UDP_SIZE, MAX_UDP_SIZE)?;
    text("answers.nsid", answers.nsid.as_deref(), MAX_NSID)?;
    text("answers.identity", answers.identity.as_deref(), MAX_TEXT)?;
    text("answers.version", answers.version.as_deref(), MAX_TEXT)
}

pub(super) fn check_cookies(cookies: &Cookies) -> Verdict {
    let inline = [
        ("cookies.secret", cookies.secret.is_some()),
        ("cookies.accepted_secret", cookies.accepted_secret.is_some()),
    ];
    for (key, _) in inline.into_iter().filter(|(_, is_there)| *is_there) {
        if cookies.secret_file.is_some() {
            return broken(key, Problem::Both { other: "cookies.secret_file" });
        }
    }
    if cookies.accepted_secret.is_some() && cookies.secret.is_none() {
        let fix = "write both, or neither";
        return broken("cookies.accepted_secret", Problem::Without { other: "secret", fix });
    }
    if cookies.require && !cookies.enabled {
        let fix = "write both, or leave `require` out";
        return broken("cookies.require", Problem::Without { other: "enabled = true", fix });
    }
    match cookies.secrets() {
        Ok(_) => Ok(()),
        Err(problem) => broken("cookies.secret_file", problem),
    }
}

/// A text of 1 to `max` bytes, if it is there.
fn text(key: &str, text: Option<&str>, max: usize) -> Verdict {
    match text.map(str::len) {
        Some(bytes) if bytes == 0 || bytes > max => broken(key, Problem::TextLength { bytes, max }),
        _ => Ok(()),
    }
}
