//! `addAction(rule, action)`: the kinds that a table of pmdns stands for. The first rule that matches decides.

use std::collections::BTreeMap;
use std::net::IpAddr;

use pmdns_config::Prefix;

use super::call::Call;
use super::lua::Value;
use super::names::{group, view_of};
use super::selected::{HARMLESS, Selected, is_decisive, selected};
use crate::clients::{ByClient, SettingValue};
use crate::meaning::{AccessAction, Forwarder, LocalData, NONE};
use crate::source::Origin;

/// The TTL of an answer that a rule makes.
const SPOOF_TTL: u32 = 60;
/// Why the name of another answer is NXDOMAIN.
const OTHER_ANSWER: &str = "these names are NXDOMAIN; for another answer write them \
    into a file of `[[blocklist]]` with the `action` that this is";
/// Why a rule about queries of type ANY is lost.
const OF_ANY: &str = "queries of type ANY get one HINFO record (`answers.minimal_any`), whatever a rule says of them";

/// A rule with its action.
pub(super) struct Rule {
    pub(super) arguments: Vec<Value>,
    pub(super) origin: Origin,
}

/// What becomes of queries.
#[derive(Clone, PartialEq)]
enum Effect {
    /// The group of a pool is asked.
    Pool(String),
    /// They go on as if there were no more rules.
    Allow,
    Drop,
    Refuse,
    Nxdomain,
    /// Another rcode.
    Code,
    Spoof,
}

/// What is done with some clients, of which a view stands for all.
#[derive(Clone, PartialEq)]
enum OfClients {
    Access(AccessAction),
    /// The view of this number.
    View(usize),
}

/// A view for the clients of a pool, or of those that no later rule is about.
struct View {
    name: String,
    pool: Option<String>,
    /// Rules about names that come before.
    names_before: usize,
}

/// What is done with each client.
type Clients = ByClient<SettingValue<Option<OfClients>>>;

/// A rule about names, and the number of views that earlier rules have put clients into.
struct OfNames<'r> {
    names: Vec<String>,
    is_suffix: bool,
    effect: Effect,
    arguments: &'r [Value],
    views_before: usize,
    origin: &'r Origin,
}

/// The rules that tables stand for, in two parts: about clients and about names.
struct Read<'r> {
    /// What is decided about clients, and the rules about networks since.
    decided: Clients,
    clients: Vec<(Prefix, SettingValue<Option<OfClients>>)>,
    /// A view for each pool, and one more if rules about names stand between.
    views: Vec<View>,
    of_names: Vec<OfNames<'r>>,
    /// A rule has decided about all that is left.
    is_over: bool,
}

/// Writes the tables of all rules. Returned is what clients get, of which `answers` says who may ask.
pub(super) fn map(
    rules: Vec<Rule>,
    answers: &ByClient<SettingValue<AccessAction>>,
    forwarder: &mut Forwarder,
) -> ByClient<SettingValue<AccessAction>> {
    let decided = ByClient::all(SettingValue::by_default(None));
    let (clients, views, of_names) = (Vec::new(), Vec::new(), Vec::new());
    let mut read = Read { decided, clients, views, of_names, is_over: false };
    for rule in &rules {
        if read.is_over {
            forwarder.draft.unneeded(&rule.origin);
            continue;
        }
        let Some((selected, effect)) = understood(rule, forwarder) else { continue };
        match selected {
            Selected::Clients(networks, is_in) => {
                read.add_clients((networks, is_in), effect, rule, forwarder);
            }
            Selected::All => match effect {
                Effect::Pool(_) => {
                    read.add_names(vec![".".to_owned()], true, effect, rule);
                    read.is_over = true;
                }
                Effect::Allow => read.is_over = true,
                _ => {
                    let why = format!("this action for all: {NONE}");
                    forwarder.draft.decisive(&rule.origin, why);
                }
            },
            Selected::Suffixes(names) | Selected::Names(names) if names.is_empty() => {
                forwarder.draft.unneeded(&rule.origin);
            }
            Selected::Suffixes(names) => read.add_names(names, true, effect, rule),
            Selected::Names(names) => read.add_names(names, false, effect, rule),
            Selected::Over(_) | Selected::Any => {}
        }
    }
    read.decide();
    let named = write_views(&read.views, &read.decided, answers, forwarder);
    let mut earlier = Earlier::new();
    for rule in read.of_names {
        write_names(&rule, &named.views, &mut earlier, forwarder);
    }
    named.answers
}

impl<'r> Read<'r> {
    fn add_names(&mut self, names: Vec<String>, is_suffix: bool, effect: Effect, rule: &'r Rule) {
        let (arguments, origin) = (&rule.arguments[..], &rule.origin);
        let views_before = self.views.len();
        self.of_names.push(OfNames { names, is_suffix, effect, arguments, views_before, origin });
    }

    /// A rule about the clients in some networks, or about those in none of them.
    fn add_clients(
        &mut self,
        (networks, is_in): (Vec<Prefix>, bool),
        effect: Effect,
        rule: &Rule,
        forwarder: &mut Forwarder,
    ) {
        let names_before = self.of_names.len();
        let of = match effect {
            Effect::Drop => OfClients::Access("drop"),
            Effect::Refuse => OfClients::Access("refuse"),
            Effect::Pool(pool) => view(Some(pool), names_before, &mut self.views),
            Effect::Allow => view(None, names_before, &mut self.views),
            _ => {
                let why = format!("this action for these clients: {NONE}");
                return forwarder.draft.decisive(&rule.origin, why);
            }
        };
        let said = SettingValue::by(Some(of), &rule.origin);
        if is_in {
            self.clients.extend(networks.into_iter().map(|network| (network, said.clone())));
            return;
        }
        // A list of networks cannot say that for those in the networks later rules count.
        self.decide();
        let inner = networks.into_iter().map(|network| (network, SettingValue::by_default(None)));
        let outer = ByClient::first_match(inner, said.clone());
        self.decided = earlier_of(&self.decided, &outer);
    }

    /// Takes in the rules about networks.
    fn decide(&mut self) {
        let listed = ByClient::first_match(self.clients.drain(..), SettingValue::by_default(None));
        self.decided = earlier_of(&self.decided, &listed);
    }
}

/// What the first of two says, and for clients that it says nothing about the second.
fn earlier_of(first: &Clients, second: &Clients) -> Clients {
    first.join(second, |first, second| if first.value.is_some() { first } else { second }.clone())
}

/// The view of a pool: another one behind each rule about names.
fn view(pool: Option<String>, names_before: usize, views: &mut Vec<View>) -> OfClients {
    let name = match &pool {
        Some(pool) => view_of(pool),
        None => "allowed".to_owned(),
    };
    let pool = pool.map(|pool| group(&pool));
    let of_pool = views.iter().filter(|view| view.pool == pool).count();
    let known =
        views.iter().position(|view| view.pool == pool && view.names_before == names_before);
    OfClients::View(known.unwrap_or_else(|| {
        let name = if of_pool == 0 { name } else { format!("{name}-{}", of_pool + 1) };
        views.push(View { name, pool, names_before });
        views.len() - 1
    }))
}

/// What a rule says, if tables stand for it. If none does, it is listed.
fn understood(rule: &Rule, forwarder: &mut Forwarder) -> Option<(Selected, Effect)> {
    let origin = &rule.origin;
    let [condition, Value::Call(action, of_action), ..] = &rule.arguments[..] else {
        forwarder.draft.decisive(origin, "there is no rule with an action that is known");
        return None;
    };
    let mut list = |why: String| match is_decisive(condition, action) {
        true => forwarder.draft.decisive(origin, why),
        false => forwarder.draft.unmapped(origin, why),
    };
    let Some(selected) = selected(condition) else {
        list(format!("such a rule: {NONE}"));
        return None;
    };
    if matches!(selected, Selected::Any) {
        list(OF_ANY.to_owned());
        return None;
    }
    if let Selected::Over(limit) = &selected {
        over(forwarder, limit, action, origin);
        return None;
    }
    let first = of_action.first();
    let code = match first {
        Some(Value::Name(code)) => code.rsplit('.').next().unwrap_or_default().to_ascii_uppercase(),
        _ => String::new(),
    };
    let pool = || first.and_then(Value::text).unwrap_or_default().to_owned();
    if action == "PoolAction" && of_action.get(1).is_some_and(|stop| stop.name() != "true") {
        list("rules behind it are asked too, and this one stops".to_owned());
        return None;
    }
    let effect = match (&**action, &*code) {
        ("PoolAction", _) => Effect::Pool(pool()),
        ("AllowAction", _) => Effect::Allow,
        ("DropAction", _) => Effect::Drop,
        ("RefusedAction", _) | ("RCodeAction", "REFUSED") => Effect::Refuse,
        ("RCodeAction", "NXDOMAIN") => Effect::Nxdomain,
        ("RCodeAction", _) => Effect::Code,
        ("SpoofAction" | "SpoofCNAMEAction", _) => Effect::Spoof,
        _ => {
            list(format!("this action of such a rule: {NONE}"));
            return None;
        }
    };
    Some((selected, effect))
}

/// The views of pmdns, and what all clients get.
struct Named {
    views: Vec<String>,
    answers: ByClient<SettingValue<AccessAction>>,
}

fn write_views(
    views: &[View],
    clients: &Clients,
    answers: &ByClient<SettingValue<AccessAction>>,
    forwarder: &mut Forwarder,
) -> Named {
    let answers = answers.join(clients, |answer, rule| match &rule.value {
        Some(OfClients::Access(said)) if answer.value == "allow" => {
            SettingValue { value: *said, origin: rule.origin.clone() }
        }
        _ => answer.clone(),
    });
    let names: Vec<String> = views.iter().map(|view| forwarder.short("view", &view.name)).collect();
    let is_in_none =
        |said: &SettingValue<Option<OfClients>>| !matches!(said.value, Some(OfClients::View(_)));
    let Some(pieces) = clients.without(is_in_none) else {
        forwarder.draft.decisive(&Origin::default(), "the pools of clients have too many networks");
        return Named { views: names, answers };
    };
    for (number, (name, of)) in names.iter().zip(views).enumerate() {
        let own = pieces.iter().filter(|(_, said)| said.value == Some(OfClients::View(number)));
        let own: Vec<_> = own.map(|(network, said)| (*network, said.origin.clone())).collect();
        let Some(origin) = own.first().and_then(|(_, origin)| origin.clone()) else { continue };
        forwarder.view(name, own, &origin);
        if let Some(group) = &of.pool
            && let Some(view) = forwarder.draft.tables.last_mut()
        {
            view.set("group", &**group, Some(origin));
        }
    }
    Named { views: names, answers }
}

/// Names of earlier rules, their labels from the root on, each with its effect; whether those below are meant too.
type Earlier = BTreeMap<String, (bool, Effect)>;

/// A name with its labels from the root on.
fn from_root(name: &str) -> String {
    let name = name.trim_matches('.').to_ascii_lowercase();
    name.rsplit('.').filter(|label| !label.is_empty()).map(|label| format!("{label}.")).collect()
}

/// Whether earlier rules decide about a name already.
fn is_decided(name: &str, earlier: &Earlier) -> bool {
    let ends = name.match_indices('.').map(|(at, _)| at + 1);
    let mut above = std::iter::once(0).chain(ends).map(|end| &name[..end]);
    above.any(|above| earlier.get(above).is_some_and(|(is_suffix, _)| *is_suffix || above == name))
}

fn write_names(
    rule: &OfNames<'_>,
    views: &[String],
    earlier: &mut Earlier,
    forwarder: &mut Forwarder,
) {
    // Rules about clients that come before take their clients away.
    let views: Vec<String> = match rule.views_before {
        0 => Vec::new(),
        before => {
            let later = views.iter().skip(before).cloned();
            std::iter::once("default".to_owned()).chain(later).collect()
        }
    };
    let mut added = Vec::new();
    for name in &rule.names {
        let key = from_root(name);
        if is_decided(&key, earlier) {
            continue;
        }
        if rule.is_suffix {
            let below =
                earlier.range(key.clone()..).take_while(|(other, _)| other.starts_with(&key));
            for (other, (_, effect)) in below {
                keep(other, effect, rule, &views, forwarder);
            }
        }
        write_name(name, rule, &views, forwarder);
        added.push(key);
    }
    if added.is_empty() {
        forwarder.draft.unneeded(rule.origin);
    }
    earlier.extend(added.into_iter().map(|key| (key, (rule.is_suffix, rule.effect.clone()))));
}

/// Keeps what an earlier rule says of a name below one of this rule.
fn keep(
    other: &str,
    effect: &Effect,
    rule: &OfNames<'_>,
    views: &[String],
    forwarder: &mut Forwarder,
) {
    let name = from_root(other);
    let name = name.trim_end_matches('.');
    let is_block =
        matches!(rule.effect, Effect::Drop | Effect::Refuse | Effect::Nxdomain | Effect::Code);
    match (effect, &rule.effect) {
        (Effect::Allow | Effect::Pool(_), _) if is_block && views.is_empty() => {
            forwarder.except(name, rule.origin);
        }
        (Effect::Allow, Effect::Pool(_)) => forwarder.ask(name, "default", views, rule.origin),
        (Effect::Spoof, _) | (_, Effect::Allow | Effect::Pool(_)) => {}
        _ if is_block && !matches!(effect, Effect::Allow | Effect::Pool(_)) => {}
        _ => {
            let why = format!("an earlier rule is about `{name}`, but this one decides here");
            forwarder.draft.unmapped(rule.origin, why);
        }
    }
}

fn write_name(name: &str, rule: &OfNames<'_>, views: &[String], forwarder: &mut Forwarder) {
    let origin = rule.origin;
    match &rule.effect {
        Effect::Pool(pool) => {
            if !rule.is_suffix {
                forwarder.draft.decisive(origin, "the names below it are asked of this pool too");
            }
            forwarder.ask(name, &group(pool), views, origin);
        }
        Effect::Allow => {}
        Effect::Spoof => spoof(name, rule, views, forwarder),
        effect => {
            forwarder.block(name, views, origin);
            if !rule.is_suffix {
                forwarder.draft.unmapped(origin, "`[block]` blocks the names below it too");
            }
            if *effect != Effect::Nxdomain {
                forwarder.draft.unmapped(origin, OTHER_ANSWER);
            }
        }
    }
}

/// `SpoofAction({addresses}, {ttl=300})` and `SpoofCNAMEAction("name")`.
fn spoof(name: &str, rule: &OfNames<'_>, views: &[String], forwarder: &mut Forwarder) {
    let Some(Value::Call(action, of_action)) = rule.arguments.get(1) else { return };
    let (call, origin) = (Call::new(of_action), rule.origin);
    let ttl = of_action.iter().enumerate().find_map(|(at, _)| call.option(at, "ttl")?.text());
    let ttl = ttl.and_then(|ttl| ttl.parse().ok()).unwrap_or(SPOOF_TTL);
    let mut records = Vec::new();
    if action == "SpoofCNAMEAction" {
        records.extend(call.text(0).map(|target| ("CNAME", target.to_owned())));
    } else {
        // With two texts these are the IPv4 and the IPv6 address.
        let texts = [0, 1].into_iter().filter_map(|at| call.texts(at)).flatten();
        for text in texts {
            match text.parse::<IpAddr>() {
                Ok(address) if address.is_ipv4() => records.push(("A", address.to_string())),
                Ok(address) => records.push(("AAAA", address.to_string())),
                Err(_) => forwarder.draft.unmapped(origin, format!("`{text}` is no address")),
            }
        }
        let why = "queries of other types are NOERROR without records here; dnsdist forwards them";
        forwarder.draft.unmapped(origin, why);
    }
    call.list_rest(origin, forwarder);
    if records.is_empty() {
        return forwarder.draft.unmapped(origin, "there is no address to answer with");
    }
    for (rtype, data) in records {
        let record = LocalData { name, rtype, ttl, data: &data };
        match rule.is_suffix {
            true => forwarder.local_below(record, views, origin),
            false => forwarder.local(record, views, origin),
        }
    }
}

/// A limit for each client: its rate, and what becomes of queries over it.
fn over(forwarder: &mut Forwarder, limit: &[String], action: &str, origin: &Origin) {
    let slip = match action {
        "DropAction" => 0_u64,
        "TCAction" => 1,
        "RCodeAction" | "RefusedAction" | "ERCodeAction" => {
            forwarder.draft.unmapped(origin, "queries over a limit are dropped, or get TC=1");
            0
        }
        _ if HARMLESS.contains(&action) => {
            return forwarder.draft.unmapped(origin, "queries over a limit are dropped");
        }
        _ => {
            let why = format!("this action for queries over a limit: {NONE}");
            return forwarder.draft.decisive(origin, why);
        }
    };
    let of = |at: usize, usual: &'static str| limit.get(at).map_or(usual, String::as_str);
    let rate = of(0, "0");
    forwarder.number("ratelimit", "queries_per_second", rate, origin);
    forwarder.number("ratelimit", "ipv4_prefix", of(1, "32"), origin);
    forwarder.number("ratelimit", "ipv6_prefix", of(2, "64"), origin);
    forwarder.number("ratelimit", "burst", limit.get(3).map_or(rate, String::as_str), origin);
    forwarder.draft.set("ratelimit", "slip", slip, origin);
}
