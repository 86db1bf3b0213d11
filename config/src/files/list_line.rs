//! One line of a block list: the names it has, or what kind of line it is if it has none.

use std::net::IpAddr;

use crate::narrow::to_u8;
use crate::settings::ListFormat;

/// Names that every hosts file has, and that are not meant to be blocked.
const HOST_ITSELF: [&str; 11] = [
    "localhost",
    "localhost.localdomain",
    "local",
    "broadcasthost",
    "ip6-localhost",
    "ip6-loopback",
    "ip6-localnet",
    "ip6-mcastprefix",
    "ip6-allnodes",
    "ip6-allrouters",
    "ip6-allhosts",
];

/// The longest name in wire format (RFC 1035 section 3.1), and the longest label.
const MAX_NAME: usize = 255;
const MAX_LABEL: usize = 63;

/// The rule of a line about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The name alone is blocked.
    Exact,
    /// The name and everything below it is blocked.
    Below,
    /// The name and everything below it is not blocked, whatever other lines and lists say.
    Except,
    /// The name alone is not blocked, whatever other lines and lists say.
    ExceptExact,
}

impl Scope {
    /// Whether it says that something is not blocked.
    pub fn is_exception(self) -> bool {
        matches!(self, Self::Except | Self::ExceptExact)
    }

    /// Whether it is about names below the listed one as well.
    pub fn is_about_names_below(self) -> bool {
        matches!(self, Self::Below | Self::Except)
    }
}

/// A name of a block list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedName<'n> {
    /// In wire format, lower case.
    pub name: &'n [u8],
    /// Its scope.
    pub scope: Scope,
    /// Whether it comes before all that is not: exceptions before blocks there too.
    pub is_important: bool,
}

/// What stands before the selector, style or script of a rule about pages.
const OF_PAGES: [&str; 9] = ["##", "#@#", "#?#", "#$#", "#%#", "#@?#", "#@$#", "#@%#", "#$?#"];

/// What a line is that has no name for us. The first kinds matter most to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// An exception: what it exempts elsewhere is blocked here.
    Exception,
    /// A rule for some requests only.
    Options,
    /// A regular expression.
    Regex,
    /// A rule about parts of pages, or about an address of the Web.
    Page,
    /// An IP address, or a name with an address of its own.
    Address,
    /// Something else.
    Other,
}

impl LeftOut {
    /// All kinds, in their order, with their names for one and for several lines.
    pub(super) const ALL: [(Self, &str, &str); 6] = [
        (Self::Exception, "exception", "exceptions"),
        (Self::Options, "rule with options", "rules with options"),
        (Self::Regex, "regular expression", "regular expressions"),
        (Self::Page, "rule about pages", "rules about pages"),
        (Self::Address, "address", "addresses"),
        (Self::Other, "other", "others"),
    ];

    /// The kind of a line that is no rule.
    pub(super) fn of(text: &str) -> Self {
        let text = text.trim();
        let first = text.split_ascii_whitespace().next().unwrap_or_default();
        let is_regex = text.contains('\\') || text.starts_with(['/', '^']) || text.contains(".*");
        match text {
            _ if text.starts_with("@@") => Self::Exception,
            _ if OF_PAGES.iter().chain(&["$$", "://"]).any(|it| text.contains(it)) => Self::Page,
            _ if text.contains('$') && text.starts_with(['|', '/', '*']) => Self::Options,
            _ if is_regex => Self::Regex,
            _ if text.starts_with('|') && text.contains('/') => Self::Page,
            _ if first.parse::<IpAddr>().is_ok() => Self::Address,
            _ => Self::Other,
        }
    }
}

/// Hands on what one line says; `false`: nothing that we understand.
pub(super) fn read_line(
    text: &str,
    format: ListFormat,
    take: &mut impl FnMut(ListedName<'_>),
) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim();
    let allowed = |this| format == this || format == ListFormat::Auto;
    if allowed(ListFormat::Adblock) && is_about_all_pages(text) {
        return false;
    }
    // Comments of all three, and the header of an ad blocker's list.
    if text.is_empty() || text.starts_with(['#', '!']) || is_header(text) {
        return true;
    }
    if let Some((scope, is_important, name)) = adblock(text) {
        return allowed(ListFormat::Adblock) && hand_on(name, (scope, is_important), take);
    }
    let text = without_comment(text);
    let mut words = text.split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some(address), Some(name)) => {
            let Ok(address) = address.parse::<IpAddr>() else { return false };
            let names = std::iter::once(name).chain(words);
            allowed(ListFormat::Hosts)
                && (address.is_loopback() || address.is_unspecified())
                && names.map(|name| host(name, take)).filter(|known| !known).count() == 0
        }
        (Some(name), None) => {
            // A lone word may be anything, as in a page that came in place of the list. Who means a top-level domain
            // writes `*.zip`, `zip.` or `||zip^`, or says that the format is `domains`.
            let is_meant = name.contains('.') || format == ListFormat::Domains;
            let name = name.strip_prefix("*.").unwrap_or(name);
            let rule = (Scope::Below, false);
            allowed(ListFormat::Domains) && is_meant && hand_on(name, rule, take)
        }
        (None, _) => false,
    }
}

/// The text before a comment, which begins with a `#` behind a blank.
fn without_comment(text: &str) -> &str {
    let comment = text.match_indices('#').find(|(at, _)| text[..*at].ends_with([' ', '\t']));
    comment.map_or(text, |(at, _)| text[..at].trim_end())
}

/// Whether it is a rule about parts of all pages, as `##.banner` and `###ads` are. Headings, as in `## Ads`, and lines that
/// divide a file, as `######`, are comments.
fn is_about_all_pages(text: &str) -> bool {
    let Some(selector) = OF_PAGES.iter().find_map(|mark| text.strip_prefix(mark)) else {
        return false;
    };
    let first = selector.strip_prefix('#').unwrap_or(selector).chars().next();
    first.is_some_and(|first| !first.is_whitespace() && !"#-=".contains(first))
        && selector.contains(|c: char| c.is_ascii_alphanumeric())
}

/// `[Adblock Plus 2.0]`, the first line of an ad blocker's list.
fn is_header(text: &str) -> bool {
    text.starts_with('[') && text.ends_with(']')
}

/// The name of a rule like `||name^`: the name and everything below it. `|name^` is about the name alone, `@@` makes an
/// exception, `^|` says the same as `^`, and `$important` comes before what is not. A rule with other options is about some
/// requests only, and no rule for us.
fn adblock(text: &str) -> Option<(Scope, bool, &str)> {
    let (is_exception, rule) = match text.strip_prefix("@@") {
        Some(rule) => (true, rule),
        None => (false, text),
    };
    let (is_important, rule) = match rule.strip_suffix("$important") {
        Some(rule) => (true, rule),
        None => (false, rule),
    };
    let rule = rule.strip_prefix('|')?;
    let (is_below, rule) = match rule.strip_prefix('|') {
        Some(rule) => (true, rule),
        None => (false, rule),
    };
    let name = rule.strip_suffix('|').unwrap_or(rule).strip_suffix('^')?;
    let scope = match (is_exception, is_below) {
        (true, true) => Scope::Except,
        (true, false) => Scope::ExceptExact,
        (false, true) => Scope::Below,
        (false, false) => Scope::Exact,
    };
    Some((scope, is_important, name.strip_prefix("*.").unwrap_or(name)))
}

/// A name of a hosts file.
fn host(name: &str, take: &mut impl FnMut(ListedName<'_>)) -> bool {
    let is_itself = HOST_ITSELF.iter().any(|itself| itself.eq_ignore_ascii_case(name));
    is_itself || name.parse::<IpAddr>().is_ok() || hand_on(name, (Scope::Exact, false), take)
}

/// Hands on the name that `text` is; `false`: it is none. A text with a backslash is none: it is a regular expression far
/// more often than a name with an escape. Nor is one whose last label is a number, as addresses and counts have: no
/// such top-level domain exists (RFC 3696 section 2).
fn hand_on(
    text: &str,
    (scope, is_important): (Scope, bool),
    take: &mut impl FnMut(ListedName<'_>),
) -> bool {
    let mut plain = [0; MAX_NAME];
    let Some(len) = plain_name(text, &mut plain) else { return false };
    let last = text.strip_suffix('.').unwrap_or(text).rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    take(ListedName { name: &plain[..len], scope, is_important });
    true
}

/// Writes a name to `wire` and gives its length. `None`: it is none.
fn plain_name(text: &str, wire: &mut [u8; MAX_NAME]) -> Option<usize> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let (mut at, mut label) = (1, 0);
    for byte in text.bytes() {
        if byte == b'.' {
            *wire.get_mut(label)? = label_len(label, at)?;
            label = at;
        } else if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            *wire.get_mut(at)? = byte.to_ascii_lowercase();
        } else {
            return None;
        }
        at += 1;
    }
    *wire.get_mut(label)? = label_len(label, at)?;
    *wire.get_mut(at)? = 0;
    Some(at + 1)
}

/// The length of the label between its length byte and `end`, if a label can be as long.
fn label_len(start: usize, end: usize) -> Option<u8> {
    let len = end - start - 1;
    (1..=MAX_LABEL).contains(&len).then(|| to_u8(len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::readable;

    /// What a line says, as `scope name` for each name; `None`: nothing we understand.
    fn line(text: &str, format: ListFormat) -> Option<Vec<String>> {
        let mut found = Vec::new();
        let mut take = |listed: ListedName<'_>| {
            let important = if listed.is_important { " important" } else { "" };
            found.push(format!("{:?} {}{important}", listed.scope, readable(listed.name)));
        };
        read_line(text, format, &mut take).then_some(found)
    }

    fn auto(text: &str) -> Option<Vec<String>> {
        line(text, ListFormat::Auto)
    }

    fn says(texts: &[&str]) -> Option<Vec<String>> {
        Some(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn every_kind_of_line_is_known_by_its_look() {
        assert_eq!(auto("0.0.0.0 Ads.example"), says(&["Exact ads.example"]));
        assert_eq!(
            auto("127.0.0.1\ta.example b.example # both"),
            says(&["Exact a.example", "Exact b.example"])
        );
        assert_eq!(auto(":: six.example"), says(&["Exact six.example"]));
        assert_eq!(auto("ads.example."), says(&["Below ads.example"]));
        assert_eq!(auto("*.ads.example"), says(&["Below ads.example"]));
        assert_eq!(auto("  ads_1.example\r\n"), says(&["Below ads_1.example"]));
        assert_eq!(auto("||ads.example^"), says(&["Below ads.example"]));
        assert_eq!(auto("@@||good.example^"), says(&["Except good.example"]));
        assert_eq!(auto("@@||good.example^|"), says(&["Except good.example"]));
        assert_eq!(auto("@@|good.example^|"), says(&["ExceptExact good.example"]));
        assert_eq!(auto("|ads.example^"), says(&["Exact ads.example"]));
        assert_eq!(auto("||ads.example^|"), says(&["Below ads.example"]));
        assert_eq!(auto("||ads.example^$important"), says(&["Below ads.example important"]));
        assert_eq!(auto("@@||ads.example^$important"), says(&["Except ads.example important"]));
        assert_eq!(auto("zip."), says(&["Below zip"]));
        assert_eq!(auto("*.zip"), says(&["Below zip"]));
        assert_eq!(auto("||zip^"), says(&["Below zip"]));
        assert_eq!(line("zip", ListFormat::Domains), says(&["Below zip"]));
        assert_eq!(auto("0.0.0.0 zip"), says(&["Exact zip"]));
    }

    #[test]
    fn comments_and_the_host_itself_are_no_rules() {
        for text in [
            "",
            "# a comment",
            "! a comment",
            "[Adblock Plus 2.0]",
            "127.0.0.1 localhost",
            "::1 ip6-localhost ip6-loopback",
            "0.0.0.0 0.0.0.0",
            "\u{feff}# first line",
        ] {
            assert_eq!(auto(text), says(&[]), "{text}");
        }
    }

    #[test]
    fn rules_about_all_pages_are_no_comments() {
        for text in [
            "##.banner",
            "###ads",
            "##div[id^=\"ad\"]",
            "##+js(nowoif)",
            "#@#.x",
            "#?#div:-abp-has(> .ad)",
            "#$#abort-on-property-read x",
            "#%#//scriptlet('x')",
            "  ##a[href]\r\n",
        ] {
            for format in [ListFormat::Auto, ListFormat::Adblock] {
                assert_eq!(line(text, format), None, "{text}");
            }
            assert_eq!(LeftOut::of(text), LeftOut::Page, "{text}");
            // Hosts files have no such rules.
            assert_eq!(line(text, ListFormat::Hosts), says(&[]), "{text}");
        }
        for text in [
            "# ads",
            "## ads",
            "### ads",
            "##",
            "###",
            "########",
            "####ads####",
            "##-----",
            "##\tads",
        ] {
            assert_eq!(auto(text), says(&[]), "{text}");
        }
    }

    #[test]
    fn what_is_no_whole_name_is_not_guessed_at() {
        for text in [
            "||ads.example^$third-party",
            "||ads.example/banner",
            "example##.ad",
            "/ads[0-9]+/",
            "192.0.2.1 printer.example",
            "192.0.2.1",
            "two words",
            "a..example",
            "||^",
            "-",
            "html",
            "12345",
            "1.2.3",
            "0.0.0.0 12345",
            "||12345^",
            "^ad\\.",
            "ads\\.example",
            "(^|\\.)ads\\.",
            "a\\.b.example",
            "|ads.example|",
            "@@ads.example^",
            "||ads.example^$important,third-party",
            "bücher.example",
            "||a b^",
            "|https://ads.example^",
            &"a".repeat(64),
        ] {
            let known = auto(text);
            assert!(known.is_none(), "{text}: {known:?}");
        }
        assert_eq!(auto("-."), says(&["Below -"]), "odd, but a name");
    }

    #[test]
    fn a_format_admits_its_own_lines_only() {
        let lines = [
            (ListFormat::Hosts, "0.0.0.0 a.example"),
            (ListFormat::Domains, "a.example"),
            (ListFormat::Adblock, "||a.example^"),
        ];
        for (format, _) in lines {
            for (own, text) in lines {
                assert_eq!(line(text, format).is_some(), own == format, "{format:?}: {text}");
            }
        }
    }

    #[test]
    fn the_longest_name_fits_and_a_longer_one_does_not() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert!(auto(&longest).is_some());
        assert!(auto(&format!("{longest}a")).is_none());
        assert!(auto(&format!("{label}a.example")).is_none());
    }
}
