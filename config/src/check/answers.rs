//! The rules of `[answers]`, `[cookies]` and `[client_subnet]`: what answers say besides their records, and
//! whom they are for.

use super::rules::{Checked, Mistakes, broken, in_range};
use crate::limits::{MAX_NSID, MAX_SUBNET_ANSWERS, MAX_TEXT, MAX_UDP_SIZE, MIN_UDP_SIZE};
use crate::problem::BrokenRule;
use crate::settings::{AnswerSettings, Config, CookieSettings, SubnetPolicy};

pub(super) fn check_answers(answers: &AnswerSettings, found: &mut Mistakes) {
    found.note(in_range("answers.max_udp_size", answers.max_udp_size, MIN_UDP_SIZE, MAX_UDP_SIZE));
    found.note(text("answers.nsid", answers.nsid.as_deref(), MAX_NSID));
    found.note(text("answers.identity", answers.identity.as_deref(), MAX_TEXT));
    found.note(text("answers.version", answers.version.as_deref(), MAX_TEXT));
}

pub(super) fn check_cookies(cookies: &CookieSettings, found: &mut Mistakes) {
    let inline = [
        ("cookies.secret", cookies.secret.is_some()),
        ("cookies.accepted_secret", cookies.accepted_secret.is_some()),
    ];
    for (key, _) in inline.into_iter().filter(|(_, is_there)| *is_there) {
        if cookies.secret_file.is_some() {
            found.note(broken(key, BrokenRule::Both { other: "cookies.secret_file" }));
        }
    }
    if cookies.accepted_secret.is_some() && cookies.secret.is_none() {
        let fix = "write both, or neither";
        found.note(broken("cookies.accepted_secret", BrokenRule::Without { other: "secret", fix }));
    }
    if cookies.require && !cookies.enabled {
        let fix = "write both, or leave `require` out";
        found.note(broken("cookies.require", BrokenRule::Without { other: "enabled = true", fix }));
    }
    if let Err(problem) = cookies.secrets() {
        found.note(broken("cookies.secret_file", problem));
    }
}

pub(super) fn check_client_subnet(config: &Config, found: &mut Mistakes) {
    let settings = &config.client_subnet;
    found.note(in_range("client_subnet.ipv4_prefix", settings.ipv4_prefix, 1, 32));
    found.note(in_range("client_subnet.ipv6_prefix", settings.ipv6_prefix, 1, 128));
    found.note(in_range("client_subnet.max_answers", settings.max_answers, 1, MAX_SUBNET_ANSWERS));
    let strips = settings.policy == SubnetPolicy::Strip;
    match config.upstreams.iter().position(|one| one.client_subnet) {
        Some(index) if strips => {
            let fix = "write policy = \"forward\" or \"add\" in [client_subnet], or leave it out";
            let problem = BrokenRule::Without { other: "client_subnet.policy", fix };
            found.note(broken(format!("upstream[{index}].client_subnet"), problem));
        }
        None if !strips => {
            let fix = "write it into those upstreams that may know where clients are";
            let problem = BrokenRule::Without { other: "client_subnet = true", fix };
            found.note(broken("client_subnet.policy", problem));
        }
        _ => {}
    }
    if settings.policy == SubnetPolicy::Add && config.prefetch.enabled {
        found.note(broken("client_subnet.policy", BrokenRule::PrefetchForNobody));
    }
}

/// A text of 1 to `max` bytes, if it is there.
fn text(key: &str, text: Option<&str>, max: usize) -> Checked {
    match text.map(str::len) {
        Some(bytes) if bytes == 0 || bytes > max => {
            broken(key, BrokenRule::TextLength { bytes, max })
        }
        _ => Ok(()),
    }
}
