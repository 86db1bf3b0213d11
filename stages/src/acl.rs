//! Stage: who may ask, and other properties of a client by its address.
//!
//! Four kinds of prefixes are looked up in one go. They are access lists, views, exemptions from limits, and clients
//! that policy zones have rules about. Of each kind the longest prefix that matches decides. A query that parse has
//! already decided on comes by here too, so that a client who shall get nothing gets no error either.
//!
//! The client table may have a view for a client as well. It stands before the views of the configuration.

use std::net::IpAddr;
use std::sync::Arc;

use pmdns_config::limits::MAX_VIEWS;
use pmdns_config::{Access, Config};

use crate::answer::Answer;
use crate::client_table::ClientTable;
use crate::lpm::Clients;
use crate::packet::Packet;
use crate::policy::Ruleset;
use crate::step::{Reason, Step};
use crate::wire::dns::Rcode;
use crate::wire::edns::ExtendedError;
use crate::wire::layout::Who;
use crate::{Context, Stage, StageName};

/// The properties of clients by prefix.
#[derive(Clone, Debug)]
pub struct Acl {
    /// The value for every client, when nothing tells them apart.
    everyone: Option<(Access, Who)>,
    clients: Clients<(Access, Who)>,
    table: Option<Arc<ClientTable>>,
    /// The properties of a client that the table puts into a view.
    in_views: [Who; MAX_VIEWS + 1],
}

impl Acl {
    /// The stage that keeps to the access lists and views of `config`. It notes who is exempt from its limits or
    /// has `rules` of their own.
    pub fn new(config: &Config, rules: &Ruleset) -> Self {
        let mut in_views = [Who::default(); MAX_VIEWS + 1];
        for ((view, scope), who) in config.view_numbers().zip(config.scopes()).zip(&mut in_views) {
            *who = Who::in_view(view, scope);
        }
        let members =
            config.views.iter().zip(&in_views[1..]).flat_map(|(settings, who)| {
                settings.clients.iter().map(move |prefix| (prefix, *who))
            });
        let exempt = config.ratelimit.exempt.iter().map(|prefix| (prefix, Who::EXEMPT));
        let ruled = rules.client_prefixes().map(|prefix| (prefix, Who::RULED));
        let who = Clients::new(members, Who::default())
            .join(&Clients::new(exempt, Who::default()), Who::and)
            .join(&Clients::new(ruled, Who::default()), Who::and);
        let clients =
            accesses(&config.acl, |access| access).join(&who, |access, who| (access, who));
        Self { everyone: clients.everyone(), clients, table: None, in_views }
    }

    /// The same, with the client table if there is one.
    pub fn with_table(self, table: Option<Arc<ClientTable>>) -> Self {
        Self { table, ..self }
    }

    /// Keeps to the lists of `with` from now on, which gets those it had. The client table stays.
    pub fn swap_rules(&mut self, with: &mut Self) {
        std::mem::swap(self, with);
        std::mem::swap(&mut self.table, &mut with.table);
    }

    /// The access and the properties of the client with this address of 4 or 16 bytes.
    #[inline]
    pub fn find(&self, client: &[u8]) -> (Access, Who) {
        let (access, who) = self.everyone.unwrap_or_else(|| self.clients.find(client));
        (access, self.table.as_ref().map_or(who, |table| self.in_table(table, client, who)))
    }

    /// What is known of a client who is `who` by the configuration.
    #[inline]
    fn in_table(&self, table: &ClientTable, client: &[u8], who: Who) -> Who {
        match table.find(client) {
            Some(view) => who.moved_to(self.in_views[usize::from(view) % self.in_views.len()]),
            None => who,
        }
    }
}

/// Which clients get nothing at all: parse asks before it reads a query that is not like nearly all.
#[derive(Clone, Debug)]
pub struct Dropped {
    /// What holds for every client, when nothing tells them apart.
    everyone: Option<bool>,
    clients: Clients<bool>,
}

impl Dropped {
    /// No client.
    pub fn nobody() -> Self {
        Self { everyone: Some(false), clients: Clients::new([], false) }
    }

    /// The clients that the access list of `config` drops; [`Acl`] drops the same.
    pub fn new(config: &Config) -> Self {
        let clients = accesses(&config.acl, |access| access == Access::Drop);
        Self { everyone: clients.everyone(), clients }
    }

    /// Whether the client with this address of 4 or 16 bytes is one of them.
    #[inline]
    pub fn has(&self, client: &[u8]) -> bool {
        self.everyone.unwrap_or_else(|| self.clients.find(client))
    }
}

/// Which clients may ask. Who connects is judged by it before anything of the connection is read; [`Acl`] allows the same.
#[derive(Clone, Debug)]
pub struct Allowed(Clients<bool>);

impl Allowed {
    /// The clients that the access list of `config` allows.
    pub fn new(config: &Config) -> Self {
        Self(accesses(&config.acl, |access| access == Access::Allow))
    }

    /// Whether the client with this address is one of them.
    pub fn has(&self, client: IpAddr) -> bool {
        match client {
            IpAddr::V4(v4) => self.0.find(&v4.octets()),
            IpAddr::V6(v6) => self.0.find(&v6.octets()),
        }
    }
}

/// The access of every client, by the access lists. A prefix that stands in several lists is refused rather than allowed,
/// and dropped rather than refused.
fn accesses<V: Copy + PartialEq>(
    settings: &pmdns_config::AclSettings,
    value: impl Fn(Access) -> V,
) -> Clients<V> {
    let lists = [
        (&settings.allow, Access::Allow),
        (&settings.refuse, Access::Refuse),
        (&settings.drop, Access::Drop),
    ];
    let rules = lists
        .into_iter()
        .flat_map(|(prefixes, access)| prefixes.iter().map(move |prefix| (prefix, access)));
    Clients::new(rules.map(|(prefix, access)| (prefix, value(access))), value(settings.default))
}

impl Stage for Acl {
    const NAME: StageName = StageName::Acl;

    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.everyone == Some((Access::Allow, Who::default())) && self.table.is_none()
    }

    #[inline(always)]
    fn hint(&self, packet: &Packet) {
        match &self.table {
            None => packet.frame.prefetch(),
            Some(table) => table.prefetch(packet.layout.client(packet.frame.bytes())),
        }
    }

    #[inline]
    fn act(&mut self, packet: &mut Packet, _context: &Context) -> Step {
        let (access, who) = match (self.everyone, &self.table) {
            (Some(everyone), None) => everyone,
            _ => self.find(packet.layout.client(packet.frame.bytes())),
        };
        packet.layout.who = who;
        match access {
            Access::Allow => Self::CONTINUE,
            Access::Refuse => {
                packet.answer = Answer::Rcode(Rcode::REFUSED);
                packet.extended_error = Some(ExtendedError::PROHIBITED);
                Self::CONTINUE
            }
            Access::Drop => Step::drop(Reason::AclDrop),
        }
    }
}

#[cfg(test)]
mod tests {
    use pmdns_config::View;

    use super::*;
    use crate::testing::{QueryFrame, act_once, at, query};
    use crate::wire::ip::ETHERNET_LEN;
    use crate::wire::layout::Flags;
    use crate::wire::name::Seed;

    fn stage(config: &Config) -> Acl {
        Acl::new(config, &Ruleset::empty(Seed::new([0; 16])))
    }

    fn list(default: Access, allow: &[&str], refuse: &[&str], drop: &[&str]) -> Acl {
        let prefixes = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let acl = pmdns_config::AclSettings {
            default,
            allow: prefixes(allow),
            refuse: prefixes(refuse),
            drop: prefixes(drop),
        };
        stage(&Config { acl, ..Config::default() })
    }

    #[test]
    fn who_may_connect_is_who_may_ask() {
        let prefixes = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let acl = pmdns_config::AclSettings {
            default: Access::Refuse,
            allow: prefixes(&["10.0.0.0/8", "fd00::/8"]),
            refuse: prefixes(&["10.1.0.0/16"]),
            drop: prefixes(&["10.2.0.0/16"]),
        };
        let config = Config { acl, ..Config::default() };
        let (allowed, acl) = (Allowed::new(&config), stage(&config));
        for (client, may) in [
            ("10.0.0.1", true),
            ("10.1.0.1", false),
            ("10.2.0.1", false),
            ("192.0.2.1", false),
            ("fd00::1", true),
            ("2001:db8::1", false),
        ] {
            let client: IpAddr = client.parse().unwrap();
            let octets = match client {
                IpAddr::V4(v4) => v4.octets().to_vec(),
                IpAddr::V6(v6) => v6.octets().to_vec(),
            };
            assert_eq!(allowed.has(client), may, "{client}");
            assert_eq!(acl.find(&octets).0 == Access::Allow, may, "{client}");
        }
    }

    /// The packet as parse would hand it on.
    fn packet_from(client: &str) -> Packet {
        let query: QueryFrame = match client.parse().unwrap() {
            IpAddr::V4(address) => {
                QueryFrame { source: address.octets().to_vec(), ..query("www.example. A") }
            }
            IpAddr::V6(address) => {
                let query = query("www.example. A").over_ipv6();
                QueryFrame { source: address.octets().to_vec(), ..query }
            }
        };
        let mut packet = query.packet();
        packet.layout.l3 = ETHERNET_LEN as u8;
        if query.source.len() == 16 {
            packet.layout.flags.set(Flags::IPV6);
        }
        packet
    }

    fn verdict(acl: &mut Acl, client: &str) -> (Step, Answer) {
        let packet = act_once(acl, packet_from(client), &at(0));
        (packet.step, packet.answer)
    }

    const ALLOWED: (Step, Answer) = (Acl::CONTINUE, Answer::None);
    const REFUSED: (Step, Answer) = (Acl::CONTINUE, Answer::Rcode(Rcode::REFUSED));
    const DROPPED: (Step, Answer) = (Step::drop(Reason::AclDrop), Answer::None);

    #[test]
    fn without_rules_the_default_holds_for_everyone() {
        for (default, expected) in
            [(Access::Allow, ALLOWED), (Access::Refuse, REFUSED), (Access::Drop, DROPPED)]
        {
            let mut acl = list(default, &[], &[], &[]);
            assert_eq!(verdict(&mut acl, "192.0.2.1"), expected);
            assert_eq!(verdict(&mut acl, "2001:db8::1"), expected);
        }
    }

    #[test]
    fn the_longest_prefix_decides_in_both_families() {
        let mut acl = list(
            Access::Refuse,
            &["10.0.0.0/8", "2001:db8::/32"],
            &["10.1.2.0/24"],
            &["10.1.0.0/16", "2001:db8:0:1::/64", "2001:db8::7"],
        );
        assert_eq!(verdict(&mut acl, "10.2.0.1"), ALLOWED);
        assert_eq!(verdict(&mut acl, "10.1.0.1"), DROPPED);
        assert_eq!(verdict(&mut acl, "10.1.2.1"), REFUSED);
        assert_eq!(verdict(&mut acl, "11.0.0.0"), REFUSED, "the default");
        assert_eq!(verdict(&mut acl, "2001:db8::6"), ALLOWED);
        assert_eq!(verdict(&mut acl, "2001:db8::7"), DROPPED);
        assert_eq!(verdict(&mut acl, "2001:db8:0:1:ffff::"), DROPPED);
        assert_eq!(verdict(&mut acl, "2001:db9::"), REFUSED, "the default");
    }

    #[test]
    fn rules_of_one_family_say_nothing_of_the_other() {
        let mut acl = list(Access::Allow, &[], &[], &["0.0.0.0/0"]);
        assert_eq!(verdict(&mut acl, "255.255.255.255"), DROPPED);
        assert_eq!(verdict(&mut acl, "2001:db8::1"), ALLOWED);
        let mut acl = list(Access::Allow, &[], &[], &["::/0"]);
        assert_eq!(verdict(&mut acl, "192.0.2.1"), ALLOWED);
        assert_eq!(verdict(&mut acl, "2001:db8::1"), DROPPED);
    }

    #[test]
    fn what_is_said_of_all_addresses_holds_and_not_the_default() {
        let all = ["0.0.0.0/0", "::/0"];
        let clients = ["192.0.2.1", "2001:db8::1"];
        let everyone = || all.map(|prefix| prefix.parse().unwrap()).to_vec();
        let who = |acl: &mut Acl| {
            clients.map(|client| act_once(acl, packet_from(client), &at(0)).layout.who)
        };
        for client in clients {
            assert_eq!(verdict(&mut list(Access::Allow, &[], &all, &[]), client), REFUSED);
            assert_eq!(verdict(&mut list(Access::Refuse, &all, &[], &[]), client), ALLOWED);
        }
        let view = View {
            name: "all".into(),
            clients: everyone(),
            group: Some("x".into()),
            ..View::default()
        };
        let mut acl = stage(&Config { views: vec![view], ..Config::default() });
        assert_eq!(who(&mut acl), [Who::in_view(1, 1); 2]);
        let mut config = Config::default();
        config.ratelimit.exempt = everyone();
        assert_eq!(who(&mut stage(&config)), [Who::EXEMPT; 2]);
    }

    #[test]
    fn the_longest_prefix_of_all_views_says_which_one_a_client_is_in() {
        let view = |name: &str, clients: &[&str], group: Option<&str>| View {
            name: name.into(),
            clients: clients.iter().map(|prefix| prefix.parse().unwrap()).collect(),
            group: group.map(str::to_owned),
            ..View::default()
        };
        let views = vec![
            view("wide", &["10.0.0.0/8", "2001:db8::/32"], Some("x")),
            view("narrow", &["10.1.0.0/16", "2001:db8:0:1::/64", "0.0.0.0/32"], Some("x")),
            view("like-others", &["10.1.2.0/24"], None),
        ];
        let refuse = ["10.1.3.0/24", "10.0.0.0/7"].map(|prefix| prefix.parse().unwrap()).into();
        let acl = pmdns_config::AclSettings { refuse, ..pmdns_config::AclSettings::open() };
        let mut acl = stage(&Config { acl, views, ..Config::default() });
        assert!(!acl.is_idle());
        for (client, view, scope, answer) in [
            ("10.2.0.1", 1, 1, REFUSED),
            ("10.1.0.1", 2, 1, REFUSED),
            ("10.1.2.1", 3, 0, REFUSED),
            ("10.1.3.1", 2, 1, REFUSED),
            ("11.0.0.1", 0, 0, REFUSED),
            ("12.0.0.1", 0, 0, ALLOWED),
            ("0.0.0.0", 2, 1, ALLOWED),
            ("2001:db8::1", 1, 1, ALLOWED),
            ("2001:db8:0:1::1", 2, 1, ALLOWED),
            ("2001:db9::1", 0, 0, ALLOWED),
        ] {
            let packet = act_once(&mut acl, packet_from(client), &at(0));
            assert_eq!(
                (packet.layout.who.view(), packet.layout.who.scope()),
                (view, scope),
                "{client}"
            );
            assert_eq!((packet.step, packet.answer), answer, "{client}");
        }
    }

    #[test]
    fn the_client_table_stands_before_the_views_of_the_configuration() {
        let view = |name: &str, clients: &[&str], group: Option<&str>| View {
            name: name.into(),
            clients: clients.iter().map(|prefix| prefix.parse().unwrap()).collect(),
            group: group.map(str::to_owned),
            ..View::default()
        };
        let views = vec![view("office", &["10.0.0.0/8"], Some("x")), view("kids", &[], None)];
        let mut config =
            Config { acl: pmdns_config::AclSettings::open(), views, ..Config::default() };
        config.ratelimit.exempt = vec!["10.0.0.1".parse().unwrap()];
        let (table, mut writer) = ClientTable::on_heap(4, Seed::new([0; 16]));
        let mut acl = stage(&config).with_table(Some(Arc::clone(&table)));
        let mut who = |client| act_once(&mut acl, packet_from(client), &at(0)).layout.who;
        assert_eq!(who("10.0.0.2"), Who::in_view(1, 1));
        for (prefix, view) in [("10.0.0.0/24", 2), ("10.0.0.3", 0), ("2001:db8::/56", 1)] {
            writer.set(&prefix.parse().unwrap(), view).unwrap();
        }
        assert_eq!(who("10.0.0.2"), Who::in_view(2, 0));
        assert_eq!(
            who("10.0.0.1"),
            Who::in_view(2, 0).and(Who::EXEMPT),
            "what else is known stays"
        );
        assert_eq!(who("10.0.0.3"), Who::default(), "the view of all others is one too");
        assert_eq!(who("10.0.1.1"), Who::in_view(1, 1));
        assert_eq!(who("2001:db8::1"), Who::in_view(1, 1));
        let open = Config { acl: pmdns_config::AclSettings::open(), ..Config::default() };
        let mut idle = stage(&open);
        assert!(idle.is_idle());
        let mut acl = stage(&open).with_table(Some(table));
        assert!(!acl.is_idle());
        acl.swap_rules(&mut idle);
        assert!(!acl.is_idle() && idle.is_idle(), "a reload leaves the table where it is");
    }

    #[test]
    fn the_stricter_of_two_lists_holds() {
        let mut acl = list(Access::Allow, &["10.0.0.0/8"], &["10.0.0.0/8"], &[]);
        assert_eq!(verdict(&mut acl, "10.0.0.1"), REFUSED);
        let mut acl = list(Access::Allow, &["10.0.0.0/8"], &["10.0.0.0/8"], &["10.0.0.0/8"]);
        assert_eq!(verdict(&mut acl, "10.0.0.1"), DROPPED);
    }

    #[test]
    fn an_error_that_parse_decided_on_goes_the_same_way() {
        let mut acl = list(Access::Allow, &[], &[], &["10.0.0.0/8"]);
        for (client, step) in [("10.0.0.1", DROPPED.0), ("11.0.0.1", Acl::CONTINUE)] {
            let mut packet = packet_from(client);
            packet.answer = Answer::Rcode(Rcode::FORMERR);
            let packet = act_once(&mut acl, packet, &at(0));
            assert_eq!((packet.step, packet.answer), (step, Answer::Rcode(Rcode::FORMERR)));
        }
    }
}
