//! Groups of upstreams: which group is asked for a name, and in which order its members are asked.

use std::collections::HashMap;
use std::time::Duration;

use pmdns_config::narrow::to_u8;
use pmdns_config::{
    DEFAULT_GROUP, Forward, Group as Settings, NameError, Strategy, Upstream, View, ViewSet,
    group_of,
};
use pmdns_stages::cache::Key;
use pmdns_stages::wire::name::suffixes;

use crate::questions::plan::{Order, Plan};
use crate::roster::Roster;
use crate::upstreams::health::Health;
use crate::upstreams::turns::Turns;

/// The groups of upstreams, and the names that each is asked for.
#[derive(Debug)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    /// Groups by zone, with the views in which each is asked. Zones are in wire format and lower case.
    zones: HashMap<Box<[u8]>, Vec<(ViewSet, usize)>>,
    /// The group for names that lie in no zone, by view.
    rest: Vec<usize>,
}

/// Upstreams that can stand in for each other.
#[derive(Clone, Debug)]
struct Group {
    /// Slots, in the operator's order.
    members: Order,
    strategy: Strategy,
    parallel: usize,
    /// Whether any of them is told the client's network.
    sends_subnets: bool,
    /// For round robin.
    turns: Turns,
}

impl Groups {
    /// The groups that the upstreams in use name.
    pub(crate) fn new(
        roster: &Roster,
        settings: &[Settings],
        forwards: &[Forward],
        views: &[View],
    ) -> Result<Self, NameError> {
        let in_use = roster.in_use();
        let mut names = vec![DEFAULT_GROUP];
        for (_, slot) in &in_use {
            if !names.contains(&&*slot.upstream.group) {
                names.push(&slot.upstream.group);
            }
        }
        let group = |name: &&str| {
            let settings = settings.iter().find(|group| group.name == *name);
            let is_asked = |one: &Upstream| one.group == *name && !one.is_drained;
            let members = in_use.iter().filter(|(_, slot)| is_asked(&slot.upstream));
            Group {
                sends_subnets: members.clone().any(|(_, slot)| slot.upstream.client_subnet),
                turns: Turns::new(
                    members.clone().map(|(number, one)| (*number, one.upstream.weight)),
                ),
                members: members.map(|(number, _)| to_u8(*number)).collect(),
                strategy: settings.map(|group| group.strategy).unwrap_or_default(),
                parallel: settings.map_or(1, |group| group.parallel),
            }
        };
        // A checked configuration names no group without members.
        let number = |group: &str| names.iter().position(|name| *name == group);
        let mut zones: HashMap<_, Vec<_>> = HashMap::new();
        for forward in forwards {
            if let Some(group) = number(&forward.group) {
                let set = ViewSet::of(&forward.views, views);
                zones.entry(forward.wire_zone()?).or_default().push((set, group));
            }
        }
        let root = zones.remove(&[0][..]).unwrap_or_default();
        let rest = (0..=to_u8(views.len())).map(|view| {
            let of_root = root.iter().find(|(set, _)| set.has(view)).map(|(_, group)| *group);
            of_root.or_else(|| number(group_of(view, views))).unwrap_or(0)
        });
        Ok(Self { rest: rest.collect(), groups: names.iter().map(group).collect(), zones })
    }

    /// The plan of a question, whose name is in lower case.
    pub(crate) fn plan(&mut self, key: Key<'_>, health: &mut Health, now: Duration) -> Plan {
        let group = self.of(key);
        let group = &mut self.groups[group];
        let order = group.order(health, now);
        match group.strategy {
            Strategy::Parallel => Plan::in_parallel(order, group.parallel),
            Strategy::Hedged => {
                let usual = order.first().and_then(|first| health.usual_rtt((*first).into()));
                Plan::hedged(order, usual)
            }
            Strategy::Failover | Strategy::RoundRobin | Strategy::Fastest => Plan::new(order),
        }
    }

    /// The order in which a plan would ask now. No turn is taken.
    pub(crate) fn foresee(&self, key: Key<'_>, health: &Health, now: Duration) -> Order {
        self.groups[self.of(key)].clone().order(&mut health.clone(), now)
    }

    /// Whether any upstream that may be asked this question is told the client's network.
    pub(crate) fn sends_subnets(&self, key: Key<'_>) -> bool {
        self.groups[self.of(key)].sends_subnets
    }

    /// Whether there were views of this scope when the groups were made.
    pub(crate) fn has_scope(&self, scope: u8) -> bool {
        usize::from(scope) < self.rest.len()
    }

    /// The group that a question goes to, whose name is in lower case.
    pub(crate) fn of(&self, key: Key<'_>) -> usize {
        // All views of a scope ask the same group.
        self.of_name(key.name, key.scope())
    }

    /// The group of the longest zone above `name`, among the zones of a view.
    fn of_name(&self, name: &[u8], view: u8) -> usize {
        let suffixes = suffixes(name).take_while(|_| !self.zones.is_empty());
        let mut zones = suffixes.filter_map(|zone| self.zones.get(zone)).flatten();
        match zones.find(|(set, _)| set.has(view)) {
            Some((_, group)) => *group,
            None => self.rest.get(usize::from(view)).copied().unwrap_or(0),
        }
    }
}

impl Group {
    /// All members, in the order in which to ask them now. Resting ones come last; among them, the one that is probed
    /// next comes first.
    fn order(&mut self, health: &mut Health, now: Duration) -> Order {
        if self.members.len() == 1 {
            return self.members.clone();
        }
        let rest = |member: &u8| health.next_probe((*member).into());
        let (mut resting, mut well): (Order, Order) =
            self.members.iter().copied().partition(|member| rest(member).is_some());
        resting.sort_by_key(rest);
        match self.strategy {
            Strategy::Failover => {
                well.sort_by_key(|member| health.band((*member).into(), now));
            }
            Strategy::RoundRobin => {
                let turn = self.turns.take(&well);
                well.rotate_left(turn);
            }
            Strategy::Fastest | Strategy::Parallel | Strategy::Hedged => {
                let srtt =
                    |member: &u8| health.estimate((*member).into(), now).unwrap_or(Duration::MAX);
                well.sort_by_key(srtt);
                if let Some(at) =
                    well.iter().position(|member| health.take_try((*member).into(), now))
                {
                    well[..=at].rotate_right(1);
                }
            }
        }
        well.extend(resting);
        well
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use pmdns_config::{Config, HealthSettings, wire_name};

    use super::*;
    use crate::upstreams::health::ESTIMATE_LIFETIME;
    use crate::upstreams::retry::RetryTimeout;

    const START: Duration = Duration::from_secs(1000);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// A group of three upstreams, which weigh 1, 2 and 3, and their health.
    fn three(strategy: Strategy) -> (Group, Health) {
        let group = Group {
            members: [0, 1, 2].into_iter().collect(),
            strategy,
            parallel: 2,
            sends_subnets: false,
            turns: Turns::new([(0, 1), (1, 2), (2, 3)]),
        };
        let retry = RetryTimeout::new(ms(800), ms(3000));
        (group, Health::new(&HealthSettings::default(), [retry; 3]))
    }

    fn rest(health: &mut Health, upstream: usize) {
        for _ in 0..HealthSettings::default().failures {
            health.failed(upstream, START, START);
        }
    }

    #[test]
    fn failover_keeps_the_operators_order_unless_one_is_clearly_faster() {
        let (mut group, mut health) = three(Strategy::Failover);
        assert_eq!(group.order(&mut health, START)[..], [0, 1, 2]);
        health.replied(0, ms(19), START);
        health.replied(1, ms(2), START);
        health.replied(2, ms(1), START);
        assert_eq!(group.order(&mut health, START)[..], [0, 1, 2]);
        health.replied(0, ms(200), START);
        assert_eq!(group.order(&mut health, START)[..], [1, 2, 0]);
        let later = START + ESTIMATE_LIFETIME * 2;
        assert_eq!(group.order(&mut health, later)[..], [0, 1, 2], "estimates grow old");
    }

    #[test]
    fn those_that_rest_come_last_and_are_asked_nevertheless() {
        for strategy in [Strategy::Failover, Strategy::RoundRobin, Strategy::Fastest] {
            let (mut group, mut health) = three(strategy);
            (0..3).for_each(|upstream| health.replied(upstream, ms(1), START - ms(1)));
            rest(&mut health, 0);
            assert_eq!(group.order(&mut health, START)[2], 0);
            assert_eq!(group.order(&mut health, START)[2], 0);
            rest(&mut health, 1);
            rest(&mut health, 2);
            assert_eq!(group.order(&mut health, START)[..], [0, 1, 2]);
        }
    }

    #[test]
    fn round_robin_gives_each_its_turn_and_spreads_what_a_resting_one_leaves() {
        let (mut group, mut health) = three(Strategy::RoundRobin);
        let firsts = |group: &mut Group, health: &mut Health| {
            let mut firsts = [0; 3];
            (0..600).for_each(|_| firsts[usize::from(group.order(health, START)[0])] += 1);
            firsts
        };
        assert_eq!(firsts(&mut group, &mut health), [100, 200, 300]);
        rest(&mut health, 1);
        assert_eq!(firsts(&mut group, &mut health), [150, 0, 450]);
    }

    #[test]
    fn fastest_goes_by_round_trip_time_and_finds_one_that_has_become_faster() {
        let (mut group, mut health) = three(Strategy::Fastest);
        // At first each is tried once, without waiting for the results.
        let firsts: Vec<_> = (0..4).map(|_| group.order(&mut health, START)[0]).collect();
        assert_eq!(firsts, [0, 1, 2, 0]);
        for (upstream, rtt) in [(0, 30), (1, 20), (2, 10)] {
            health.replied(upstream, ms(rtt), START + ms(rtt));
        }
        assert_eq!(group.order(&mut health, START + ms(30))[..], [2, 1, 0]);
        // Later only the upstream that is asked has been measured.
        let later = START + ms(31) + ESTIMATE_LIFETIME;
        health.replied(2, ms(10), later);
        health.replied(1, ms(20), later);
        assert_eq!(group.order(&mut health, later)[..], [0, 2, 1], "one question tries it");
        assert_eq!(group.order(&mut health, later)[..], [2, 1, 0]);
        health.replied(0, ms(1), later + ms(1));
        assert_eq!(group.order(&mut health, later + ms(1))[..], [0, 2, 1], "and it is found");
    }

    fn upstream(number: u16, group: &str) -> Upstream {
        let address = SocketAddr::from(([127, 0, 0, 1], number));
        Upstream { group: group.into(), ..Upstream::at(address.into()) }
    }

    fn roster(upstreams: &[Upstream]) -> Roster {
        Roster::new(&Config { upstreams: upstreams.to_vec(), ..Config::default() })
    }

    #[test]
    fn who_is_drained_is_in_no_plan_and_its_group_stays() {
        let mut upstreams = [upstream(1, "default"), upstream(2, "default"), upstream(3, "a")];
        upstreams[0].is_drained = true;
        let forwards = [forward("example", "a")];
        let groups = Groups::new(&roster(&upstreams), &[], &forwards, &[]).unwrap();
        let members: Vec<_> = groups.groups.iter().map(|group| group.members.to_vec()).collect();
        assert_eq!(members, [vec![1], vec![2]]);
    }

    fn forward(zone: &str, group: &str) -> Forward {
        Forward { zone: zone.into(), group: group.into(), views: Vec::new() }
    }

    #[test]
    fn the_longest_zone_decides() {
        let upstreams = [upstream(1, "default"), upstream(2, "a"), upstream(3, "b")];
        let forwards =
            [forward("Example.net.", "a"), forward("b.a.example.net", "b"), forward("org", "a")];
        let groups = Groups::new(&roster(&upstreams), &[], &forwards, &[]).unwrap();
        let members =
            |name: &str| &*groups.groups[groups.of_name(&wire_name(name).unwrap(), 0)].members;
        for (name, member) in [
            ("example.net", 1),
            ("www.example.net", 1),
            ("a.example.net", 1),
            ("b.a.example.net", 2),
            ("x.y.b.a.example.net", 2),
            ("xb.a.example.net", 1),
            ("badexample.net", 0),
            ("net", 0),
            ("example.org", 1),
            (".", 0),
        ] {
            assert_eq!(members(name), [member], "{name}");
        }
    }

    #[test]
    fn what_is_foreseen_takes_no_turn() {
        let upstreams = [1, 2, 3].map(|number| upstream(number, "default"));
        let name = wire_name("example.net").unwrap();
        let key = Key::in_scope(&name, 1, 0);
        for strategy in [Strategy::RoundRobin, Strategy::Fastest] {
            let mut groups = Groups::new(&roster(&upstreams), &[], &[], &[]).unwrap();
            groups.groups[0].strategy = strategy;
            let (_, mut health) = three(strategy);
            for _ in 0..4 {
                let foreseen = groups.foresee(key, &health, START);
                assert_eq!(groups.foresee(key, &health, START), foreseen);
                assert_eq!(groups.groups[0].order(&mut health, START), foreseen);
            }
        }
    }

    #[test]
    fn the_root_zone_is_every_name_that_no_other_claims() {
        let upstreams = [upstream(1, "a"), upstream(2, "b"), upstream(3, "b")];
        let forwards = [forward(".", "b"), forward("example", "a")];
        let groups = Groups::new(&roster(&upstreams), &[], &forwards, &[]).unwrap();
        let members =
            |name: &str| &*groups.groups[groups.of_name(&wire_name(name).unwrap(), 0)].members;
        assert_eq!(members("www.example"), [0]);
        assert_eq!((members("example.net"), members(".")), (&[1, 2][..], &[1, 2][..]));
    }

    #[test]
    fn a_view_has_zones_and_a_group_of_its_own() {
        let upstreams = ["default", "a", "b", "c"].map(|group| upstream(group.len() as u16, group));
        let view = |name: &str, group: Option<&str>| View {
            name: name.into(),
            group: group.map(str::to_owned),
            ..View::default()
        };
        let views = [view("one", Some("a")), view("two", None)];
        let in_views = |zone: &str, group: &str, names: &[&str]| Forward {
            views: names.iter().map(|name| (*name).to_owned()).collect(),
            ..forward(zone, group)
        };
        let forwards = [
            in_views("example", "b", &["default", "two"]),
            in_views("example", "c", &["one"]),
            in_views("x.example", "a", &["two"]),
            in_views(".", "c", &["two"]),
        ];
        let groups = Groups::new(&roster(&upstreams), &[], &forwards, &views).unwrap();
        let of = |name: &str| [0, 1, 2].map(|view| groups.of_name(&wire_name(name).unwrap(), view));
        assert_eq!(of("example"), [2, 3, 2]);
        assert_eq!(of("y.x.example"), [2, 3, 1]);
        assert_eq!(of("example.net"), [0, 1, 3]);
        assert_eq!(
            groups.of_name(&wire_name("example.net").unwrap(), 63),
            0,
            "there is no such view"
        );
    }
}
