//! Calls as lines of words, for the control socket.
//!
//! ```text
//! state                                   what runs
//! views | upstreams | lists               what is configured
//! upstream add ADDRESS [GROUP]            ask one more upstream
//! upstream remove|drain|resume ADDRESS    ask one no more; for new questions; again
//! upstream weight ADDRESS N               set its share of the questions of its group
//! refresh NAME                            fetch a list now
//! list add NAME URL [WORDS...]            fetch one more: address IP, refresh SECONDS, view VIEW
//! list remove NAME                        remove one that was added so
//! config [diff]                           the configuration in use, or where the file differs
//! block NAME [WORDS...]                   block a name: suffix, ACTION, view VIEW
//! allow NAME [WORDS...]                   let a name pass: suffix, view VIEW
//! unblock NAME [view VIEW]                remove the entry of a name in a view, or the one of all views
//! entries [AFTER]                         names that are blocked and allowed
//! local add NAME TYPE TTL DATA            add a local record
//! local remove NAME [TYPE]                remove local records
//! local list [AFTER]                      local records
//! client set PREFIX VIEW                  put clients into a view
//! client remove PREFIX                    take a prefix out of the client table
//! client show ADDRESS                     which view a client is in, and why
//! client list [AFTER]                     prefixes of the client table
//! hitters [WHAT [WINDOW [N]]]             names, clients and zones that come most
//! floods | limits                         zones that are flooded, zones that are limited
//! limit ZONE RATE [SECONDS]               limit the misses of a zone
//! unlimit ZONE                            lift the limit of a zone
//! ```

use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};

use crate::call::MAX_PAGE;
use crate::hitters::MAX_ROWS;
use crate::{
    Call, ClientChange, EntryChoice, EntryKind, EntryRequest, EntryScope, HittersQuery, LimitOrder,
    ListChange, NewList, NewUpstream, Page, RecordChoice, RecordRequest, RuleAction,
    UpstreamChange, UpstreamState,
};

impl Call {
    /// The call that this line makes. `None`: its first word begins none.
    pub fn from_words(line: &str) -> Option<Result<Self, String>> {
        let (word, rest) = split(line);
        Some(match (word, rest) {
            ("state", "") => Ok(Self::State),
            ("views", "") => Ok(Self::Views),
            ("upstreams", "") => Ok(Self::Upstreams),
            ("upstream", rest) => upstream(rest),
            ("lists", "") => Ok(Self::Lists),
            ("list", rest) => list(rest),
            ("refresh", name) => Ok(Self::RefreshList(name.to_owned())),
            ("config", "") => Ok(Self::Config),
            ("config", "diff") => Ok(Self::ConfigDiff),
            ("block", rest) => entry(EntryKind::Block, rest),
            ("allow", rest) => entry(EntryKind::Allow, rest),
            ("unblock", rest) => unblock(rest),
            ("entries", after) => Ok(Self::Entries(page(after))),
            ("local", rest) => local(rest),
            ("client", rest) => client(rest),
            ("hitters", rest) => hitters(rest),
            ("floods", "") => Ok(Self::Floods),
            ("limits", "") => Ok(Self::Limits),
            ("limit", rest) => limit(rest),
            ("unlimit", zone) => Ok(Self::Unlimit(zone.to_owned())),
            _ => return None,
        })
    }
}

fn split(line: &str) -> (&str, &str) {
    let line = line.trim();
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    (word, rest.trim_start())
}

fn page(after: &str) -> Page {
    Page { after: (!after.is_empty()).then(|| after.to_owned()), limit: MAX_PAGE }
}

fn entry(kind: EntryKind, rest: &str) -> Result<Call, String> {
    let (name, mut rest) = split(rest);
    let (mut scope, mut action) = (EntryScope::default(), RuleAction::default());
    let mut views = Vec::new();
    while !rest.is_empty() {
        let (word, mut others) = split(rest);
        let text: StrDeserializer<'_, Error> = word.into_deserializer();
        match (word, kind) {
            ("suffix", _) => scope = EntryScope::Suffix,
            ("view", _) if !others.is_empty() => {
                let (view, behind) = split(others);
                views.push(view.to_owned());
                others = behind;
            }
            (_, EntryKind::Block) => {
                action = RuleAction::deserialize(text).map_err(|_| {
                    format!("`{word}` is no action; write nxdomain, nodata, refused, null or drop")
                })?;
            }
            _ => {
                return Err(format!(
                    "`{word}` is not part of this; write NAME [suffix] [view VIEW]..."
                ));
            }
        }
        rest = others;
    }
    let name = name.to_owned();
    Ok(Call::AddEntries(vec![EntryRequest { name, kind, scope, action, views }]))
}

fn unblock(rest: &str) -> Result<Call, String> {
    let mut words = rest.split_ascii_whitespace().map(str::to_owned);
    match (words.next(), words.next().as_deref(), words.next(), words.next()) {
        (Some(name), None, ..) => Ok(Call::RemoveEntry(EntryChoice { name, view: None })),
        (Some(name), Some("view"), view @ Some(_), None) => {
            Ok(Call::RemoveEntry(EntryChoice { name, view }))
        }
        _ => Err("write unblock NAME [view VIEW]".to_owned()),
    }
}

fn upstream(rest: &str) -> Result<Call, String> {
    let wrong = || {
        "write upstream add ADDRESS [GROUP], upstream remove, drain or resume ADDRESS, or upstream weight ADDRESS N"
            .to_owned()
    };
    let mut words = rest.split_ascii_whitespace().map(str::to_owned);
    let (word, address) = words.next().zip(words.next()).ok_or_else(wrong)?;
    let drained = |drained| UpstreamState { drained: Some(drained), weight: None };
    let change = match (&*word, words.next(), words.next()) {
        ("add", group, None) => UpstreamChange::Add(NewUpstream { address, group }),
        ("remove", None, None) => UpstreamChange::Remove(address),
        ("drain", None, None) => UpstreamChange::Set(address, drained(true)),
        ("resume", None, None) => UpstreamChange::Set(address, drained(false)),
        ("weight", Some(number), None) => {
            let weight =
                number.parse().map_err(|_| format!("`{number}` is no weight; write a number"))?;
            UpstreamChange::Set(address, UpstreamState { drained: None, weight: Some(weight) })
        }
        _ => return Err(wrong()),
    };
    Ok(Call::ChangeUpstream(change))
}

fn list(rest: &str) -> Result<Call, String> {
    let wrong = || {
        "write list add NAME URL [address IP] [refresh SECONDS] [view VIEW]..., or list remove NAME"
            .to_owned()
    };
    let mut words = rest.split_ascii_whitespace();
    let mut next = || words.next().map(str::to_owned);
    let (word, name) = next().zip(next()).ok_or_else(wrong)?;
    if word == "remove" && next().is_none() {
        return Ok(Call::ChangeList(ListChange::Remove(name)));
    }
    let url = next().filter(|_| word == "add").ok_or_else(wrong)?;
    let mut new = NewList { name, url, address: None, refresh_seconds: None, views: Vec::new() };
    while let Some(word) = next() {
        let value = next().ok_or_else(wrong)?;
        let no = |what| format!("`{value}` is no {what}");
        match &*word {
            "address" => new.address = Some(value.parse().map_err(|_| no("IP address"))?),
            "refresh" => new.refresh_seconds = Some(value.parse().map_err(|_| no("number"))?),
            "view" => new.views.push(value),
            _ => return Err(wrong()),
        }
    }
    Ok(Call::ChangeList(ListChange::Add(new)))
}

fn client(rest: &str) -> Result<Call, String> {
    let mut words = rest.split_ascii_whitespace().map(str::to_owned);
    match (words.next().as_deref(), words.next(), words.next(), words.next()) {
        (Some("set"), Some(prefix), view @ Some(_), None) => {
            Ok(Call::ChangeClients(vec![ClientChange { prefix, view }]))
        }
        (Some("remove"), Some(prefix), None, None) => Ok(Call::RemoveClient(prefix)),
        (Some("show"), Some(address), None, None) => Ok(Call::FindClient(address)),
        (Some("list"), after, None, None) => Ok(Call::Clients(Page { after, limit: MAX_PAGE })),
        _ => Err("write client set PREFIX VIEW, client remove PREFIX, client show ADDRESS or client list"
            .to_owned()),
    }
}

fn local(rest: &str) -> Result<Call, String> {
    let (word, rest) = split(rest);
    let (name, rest) = match word {
        "list" => return Ok(Call::Records(page(rest))),
        "add" | "remove" => split(rest),
        _ => return Err("write local add, local remove or local list".to_owned()),
    };
    let (r#type, rest) = split(rest);
    let (name, given) = (name.to_owned(), r#type.to_owned());
    if word == "remove" {
        let r#type = Some(given).filter(|text| !text.is_empty());
        return Ok(Call::RemoveRecords(RecordChoice { name, r#type }));
    }
    let (ttl, data) = split(rest);
    let ttl = ttl
        .parse()
        .map_err(|_| format!("`{ttl}` is no TTL; write local add NAME TYPE TTL DATA"))?;
    Ok(Call::AddRecords(vec![RecordRequest { name, r#type: given, ttl, data: data.to_owned() }]))
}

fn hitters(rest: &str) -> Result<Call, String> {
    let mut query = HittersQuery::default();
    let mut words = rest.split_ascii_whitespace();
    if let Some(what) = words.next() {
        query.what = what.parse()?;
    }
    if let Some(window) = words.next() {
        query.window = window.parse()?;
    }
    if let Some(n) = words.next() {
        let n = n.parse().ok().filter(|n| (1..=MAX_ROWS).contains(n));
        query.n = n.ok_or_else(|| format!("write how many: 1 to {MAX_ROWS}"))?;
    }
    match words.next() {
        None => Ok(Call::Hitters(query)),
        Some(word) => Err(format!("`{word}` is not part of this; write WHAT WINDOW N")),
    }
}

fn limit(rest: &str) -> Result<Call, String> {
    let wrong = || "write ZONE RATE [SECONDS], as in `limit example.com 50 600`".to_owned();
    let mut words = rest.split_ascii_whitespace();
    let zone = words.next().ok_or_else(wrong)?.to_owned();
    let rate = words.next().and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
    let seconds = words.next().map(str::parse).transpose().map_err(|_| wrong())?;
    match words.next() {
        None => Ok(Call::Limit(LimitOrder { zone, rate, seconds })),
        Some(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hitter, Window};

    #[test]
    fn lines_of_words_are_calls() {
        let parse = |line: &str| Call::from_words(line).map(|call| call.map_err(|_| "wrong"));
        assert_eq!(parse("state"), Some(Ok(Call::State)));
        assert_eq!(parse("config diff"), Some(Ok(Call::ConfigDiff)));
        assert_eq!(parse("reload"), None);
        assert_eq!(parse("config other"), None);
        let unblock = |view: Option<&str>| {
            let (name, view) = ("a.example".to_owned(), view.map(str::to_owned));
            Some(Ok(Call::RemoveEntry(EntryChoice { name, view })))
        };
        assert_eq!(parse("unblock a.example"), unblock(None));
        assert_eq!(parse("unblock a.example view kids"), unblock(Some("kids")));
        for line in ["unblock", "unblock a view", "unblock a kids", "unblock a view kids lab"] {
            assert_eq!(parse(line), Some(Err("wrong")), "{line}");
        }
        let block = |scope, action| {
            let (name, kind, views) = ("a.example".to_owned(), EntryKind::Block, Vec::new());
            Some(Ok(Call::AddEntries(vec![EntryRequest { name, kind, scope, action, views }])))
        };
        assert_eq!(parse("block a.example"), block(EntryScope::Exact, RuleAction::Nxdomain));
        assert_eq!(
            parse("block  a.example  null suffix"),
            block(EntryScope::Suffix, RuleAction::Null)
        );
        assert_eq!(parse("block a.example below"), Some(Err("wrong")));
        assert_eq!(parse("allow a.example view"), Some(Err("wrong")));
        let views = |line| match Call::from_words(line) {
            Some(Ok(Call::AddEntries(entries))) => entries[0].views.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(views("block a.example null view kids view guests suffix"), ["kids", "guests"]);
        assert_eq!(views("allow a.example suffix view kids"), ["kids"]);
        assert_eq!(parse("allow a.example null"), Some(Err("wrong")));
        let record = RecordRequest {
            name: "p.lan".into(),
            r#type: "TXT".into(),
            ttl: 60,
            data: "\"a  b\"".into(),
        };
        assert_eq!(
            parse("local add p.lan TXT 60 \"a  b\""),
            Some(Ok(Call::AddRecords(vec![record])))
        );
        assert_eq!(parse("local add p.lan A 192.0.2.1"), Some(Err("wrong")));
        let choice = RecordChoice { name: "p.lan".into(), r#type: None };
        assert_eq!(parse("local remove p.lan"), Some(Ok(Call::RemoveRecords(choice))));
        assert_eq!(parse("local"), Some(Err("wrong")));
        let (prefix, view) = ("192.0.2.0/24".to_owned(), Some("kids".to_owned()));
        let set = Call::ChangeClients(vec![ClientChange { prefix: prefix.clone(), view }]);
        assert_eq!(parse("client set 192.0.2.0/24 kids"), Some(Ok(set)));
        assert_eq!(parse("client remove 192.0.2.0/24"), Some(Ok(Call::RemoveClient(prefix))));
        assert_eq!(parse("client show ::1"), Some(Ok(Call::FindClient("::1".into()))));
        let page = Page { after: Some("::1/128".into()), limit: MAX_PAGE };
        assert_eq!(parse("client list ::1/128"), Some(Ok(Call::Clients(page))));
        for wrong in ["client", "client set ::1", "client set ::1 kids now", "client show"] {
            assert_eq!(parse(wrong), Some(Err("wrong")), "{wrong}");
        }
    }

    #[test]
    fn lines_about_upstreams_are_calls() {
        let parse = |line: &str| Call::from_words(line).map(|call| call.map_err(|_| "wrong"));
        let change = |change| Some(Ok(Call::ChangeUpstream(change)));
        let address = || "192.0.2.1:53".to_owned();
        let new = |group| change(UpstreamChange::Add(NewUpstream { address: address(), group }));
        assert_eq!(parse("upstream add 192.0.2.1:53"), new(None));
        assert_eq!(parse("upstream add 192.0.2.1:53 corp"), new(Some("corp".to_owned())));
        assert_eq!(
            parse("upstream remove 192.0.2.1:53"),
            change(UpstreamChange::Remove(address()))
        );
        let set = |drained, weight| {
            change(UpstreamChange::Set(address(), UpstreamState { drained, weight }))
        };
        assert_eq!(parse("upstream drain 192.0.2.1:53"), set(Some(true), None));
        assert_eq!(parse("upstream resume 192.0.2.1:53"), set(Some(false), None));
        assert_eq!(parse("upstream weight 192.0.2.1:53 7"), set(None, Some(7)));
        for wrong in [
            "upstream",
            "upstream add",
            "upstream drain a b",
            "upstream weight a",
            "upstream weight a -1",
            "upstream weight a 1 2",
        ] {
            assert_eq!(parse(wrong), Some(Err("wrong")), "{wrong}");
        }
    }

    #[test]
    fn lines_about_lists_are_calls() {
        let parse = |line: &str| Call::from_words(line).map(|call| call.map_err(|_| "wrong"));
        let change = |change| Some(Ok(Call::ChangeList(change)));
        let new = |address: Option<&str>, refresh_seconds, views: &[&str]| {
            let (name, url) = ("ads".to_owned(), "https://a.example/l".to_owned());
            let address = address.map(|address| address.parse().unwrap());
            let views = views.iter().map(|view| (*view).to_owned()).collect();
            change(ListChange::Add(NewList { name, url, address, refresh_seconds, views }))
        };
        let add = "list add ads https://a.example/l";
        assert_eq!(parse(add), new(None, None, &[]));
        let line = format!("{add} view kids address ::1 refresh 60 view lab");
        assert_eq!(parse(&line), new(Some("::1"), Some(60), &["kids", "lab"]));
        assert_eq!(parse("list remove ads"), change(ListChange::Remove("ads".to_owned())));
        for wrong in [
            "list",
            "list add",
            "list add ads",
            "list drop ads https://a.example/l",
            "list add ads https://a.example/l view",
            "list add ads https://a.example/l address here",
            "list add ads https://a.example/l refresh daily",
            "list add ads https://a.example/l every 60",
            "list remove ads now",
        ] {
            assert_eq!(parse(wrong), Some(Err("wrong")), "{wrong}");
        }
    }

    #[test]
    fn lines_about_traffic_are_calls() {
        let parse = |line: &str| Call::from_words(line).map(|call| call.map_err(|_| "wrong"));
        let hitters = |what, window, n| Some(Ok(Call::Hitters(HittersQuery { what, window, n })));
        assert_eq!(parse("hitters"), hitters(Hitter::Names, Window::Minute, 20));
        assert_eq!(parse("hitters nxdomain 1h 3"), hitters(Hitter::Nxdomain, Window::Hour, 3));
        let limit = |seconds| {
            Some(Ok(Call::Limit(LimitOrder { zone: "a.example".into(), rate: 50, seconds })))
        };
        assert_eq!(parse("limit a.example 50"), limit(None));
        assert_eq!(parse("limit a.example 50 600"), limit(Some(600)));
        assert_eq!(parse("unlimit a.example"), Some(Ok(Call::Unlimit("a.example".into()))));
        for line in [
            "hitters all",
            "hitters names 2m",
            "hitters names 1m 0",
            "hitters names 1m 1001",
            "hitters names 1m 1 1",
            "limit",
            "limit a.example",
            "limit a.example -1",
            "limit a.example 1 x",
            "limit a.example 1 1 1",
        ] {
            assert_eq!(parse(line), Some(Err("wrong")), "{line}");
        }
        for what in Hitter::ALL {
            assert_eq!(what.to_string().parse(), Ok(what));
        }
    }
}
