//! Options of Unbound, as a configuration of pmdns.

use std::net::IpAddr;
use std::path::Path;

use super::grammar::{Scenario, ip_address};

/// What a scenario is played with.
#[derive(Default)]
pub(crate) struct Setting {
    /// The configuration.
    pub(crate) toml: String,
    /// Whether the upstream is a resolver that finds out by itself whom to ask.
    pub(crate) iterates: bool,
    /// Whether all clients ask a question with the flags of the first: RD, CD and DO.
    pub(crate) keeps_flags: bool,
    /// Whether it is one of those of a client's cache.
    pub(crate) is_client_cache: bool,
    /// Whether a policy zone denies names.
    pub(crate) denies: bool,
    /// The date at the start, in seconds since 1970.
    pub(crate) date: Option<u32>,
}

/// Seconds for which Unbound asks nobody after a failure (NORR_TTL).
const PAUSE: u32 = 5;

/// Options that mean nothing to a forwarder, or nothing here. They say how to iterate, which further sections answers have
/// (docs/adr/0029), and what is logged. Others are about sizes, connections, and extended errors, which pmdns always sends.
const NEUTRAL: [&str; 24] = [
    "aggressive-nsec",
    "discard-timeout",
    "do-ip6",
    "ede",
    "ede-serve-expired",
    "fake-sha1",
    "iter-scrub-promiscuous",
    "local-zone",
    "log-servfail",
    "minimal-responses",
    "module-config",
    "msg-cache-size",
    "msg-cache-slabs",
    "name",
    "outbound-msg-retry",
    "qname-minimisation",
    "rpz",
    "rpz-log",
    "rpz-log-name",
    "rrset-roundrobin",
    "server",
    "target-fetch-policy",
    "trust-anchor-signaling",
    "val-max-restart",
];

/// Settings as they come together.
struct Draft<'a> {
    setting: Setting,
    upstreams: Vec<IpAddr>,
    cache: String,
    rules: String,
    more: String,
    scenario: &'a Scenario,
    folder: &'a Path,
}

/// The configuration for a scenario; files it names are written into `folder`. An error is the option that cannot be translated.
pub(crate) fn translate(scenario: &Scenario, folder: &Path) -> Result<Setting, String> {
    let mut draft = Draft {
        setting: Setting { keeps_flags: true, ..Setting::default() },
        upstreams: Vec::new(),
        cache: String::new(),
        rules: String::new(),
        more: String::new(),
        scenario,
        folder,
    };
    let has = |name: &str| scenario.options.iter().any(|line| line.starts_with(name));
    for (name, value) in options(&scenario.options) {
        draft.take(&name, &value).map_err(|why| format!("option {name}: {why}"))?;
    }
    if !has("serve-expired:") {
        draft.cache += "serve_stale = false\n";
    }
    if !has("cache-max-negative-ttl:") {
        draft.cache += "max_negative_ttl = 3600\n";
    }
    draft.finish()
}

/// Names and values: what ends with a colon is a name, and what follows up to the next is its value.
fn options(lines: &[String]) -> Vec<(String, String)> {
    let mut options: Vec<(String, String)> = Vec::new();
    for word in lines.iter().flat_map(|line| line.split_whitespace()) {
        match (word.strip_suffix(':'), options.last_mut()) {
            (Some(name), _) => options.push((name.to_owned(), String::new())),
            (None, Some((_, value))) => *value += &format!(" {word}"),
            (None, None) => options.push((word.to_owned(), String::new())),
        }
    }
    for (_, value) in &mut options {
        *value = value.trim().trim_matches('"').to_owned();
    }
    options
}

impl Draft<'_> {
    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, value) {
            ("serve-expired", _) => self.cache += &format!("serve_stale = {}\n", is_yes(value)?),
            ("serve-expired-client-timeout", _) => {
                self.cache += &format!("stale_client_timeout_ms = {value}\n");
            }
            ("serve-expired-reply-ttl", _) => self.cache += &format!("stale_ttl = {value}\n"),
            ("serve-expired-ttl", _) => self.cache += &format!("stale_window_seconds = {value}\n"),
            ("cache-max-ttl", _) => self.cache += &format!("max_ttl = {value}\n"),
            ("cache-min-ttl", _) => self.cache += &format!("min_ttl = {value}\n"),
            ("cache-max-negative-ttl", _) => {
                self.cache += &format!("max_negative_ttl = {value}\n");
            }
            ("prefetch", _) if is_yes(value)? => {
                self.more += "[prefetch]\nenabled = true\ncache_min_frequency = 1\n\
                    cache_min_hits_per_minute = 0.0\ncache_refresh_threshold = 0.9\n";
            }
            ("prefetch", _) => {}
            ("num-queries-per-thread", _) => {
                self.more += &format!("[slowpath]\nmax_pending = {value}\n");
            }
            ("access-control", _) if value.ends_with(" allow_snoop") => {}
            ("forward-zone", "") => {}
            ("forward-addr", _) => self.upstreams.push(ip_address(value)?),
            ("stub-zone", "") => self.setting.iterates = true,
            ("stub-addr", _) => self.upstreams.push(ip_address(value)?),
            ("trust-anchor", _) => {
                self.setting.keeps_flags = false;
                let file = self.write("anchors", value)?;
                self.more += &format!("[dnssec]\nvalidate = true\ntrust_anchor = \"{file}\"\n");
            }
            ("val-override-date", _) => self.setting.date = Some(date(value)?),
            ("response-ip", "192.0.2.0/24 deny") => self.rules += "rpz-drop.",
            ("response-ip", "192.0.2.0/24 redirect") => {}
            ("response-ip-data", _) => {
                let (_, target) = value.split_once("CNAME ").ok_or("no alias")?;
                self.rules += target;
            }
            ("zonefile", _) => {
                let zone = self.scenario.files.first().ok_or("no file")?;
                let file = self.write("rpz", zone)?;
                self.more += &format!("[[rpz]]\nfile = \"{file}\"\n");
                self.setting.denies = true;
            }
            _ if NEUTRAL.contains(&name) => {}
            _ => return Err("no such thing here".into()),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Setting, String> {
        if !self.rules.is_empty() {
            let rule = format!(
                "$ORIGIN rules.\n@ 60 SOA . . 1 60 60 60 60\n\
                 24.0.2.0.192.rpz-ip 3600 CNAME {}\n",
                self.rules
            );
            let file = self.write("rpz", &rule)?;
            self.more += &format!("[[rpz]]\nfile = \"{file}\"\n");
        }
        let upstreams = self.upstreams.iter();
        let upstreams: String = upstreams
            .map(|address| format!("[[upstream]]\naddress = \"{address}:53\"\n"))
            .collect();
        self.setting.toml = configuration(&format!(
            "[cache]\nsize = \"1MiB\"\npages = \"normal\"\nstale_backoff_seconds = {PAUSE}\n{}{}{upstreams}",
            self.cache, self.more
        ));
        Ok(self.setting)
    }

    fn write(&self, name: &str, text: &str) -> Result<String, String> {
        let file = self.folder.join(name);
        std::fs::write(&file, format!("{text}\n")).map_err(|error| error.to_string())?;
        Ok(file.display().to_string())
    }
}

/// A configuration with a port that everybody may ask at.
pub(crate) fn configuration(more: &str) -> String {
    format!(
        "[control]\nsocket = \"unused\"\n[[port]]\nname = \"p0\"\ndevice = \"memory\"\n\
         addresses = [\"10.77.0.2/24\"]\n[acl]\ndefault = \"allow\"\n\
         [answers]\nminimal_any = false\n{more}"
    )
}

fn is_yes(value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("`{value}` is neither yes nor no")),
    }
}

/// A date like 20070916134226, in seconds since 1970.
fn date(text: &str) -> Result<u32, String> {
    use domain::rdata::dnssec::Timestamp;
    text.parse::<Timestamp>().map(Timestamp::into_int).map_err(|_| format!("`{text}` is no date"))
}
