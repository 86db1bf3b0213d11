//! Stage: how fast one client may ask.
//!
//! A [`Limiter`] counts what comes from a client prefix. This stage has one for all queries, policy another for
//! misses, encode a third for error replies, neighbor a fourth for pings.

mod bucket;
mod limiter;
mod prefixes;
mod table;

use pmdns_config::Config;

use crate::answer::Answer;
use crate::packet::{Batch, MAX_BATCH, Packet};
use crate::step::{Exits, Reason, Run, Step};
use crate::wire::layout::Flags;
use crate::wire::name::Seed;
use crate::{Context, Stage, StageName};
pub use bucket::Budget;
pub use limiter::{LimitDecision, Limiter};
pub use prefixes::ClientPrefixes;

/// The rate limiter of one core.
#[derive(Clone, Debug)]
pub struct RateLimit {
    limiter: Limiter,
    exempts_cookies: bool,
}

impl RateLimit {
    /// The stage that keeps to the limits of `config`, on a clock with that many ticks a second.
    pub fn new(config: &Config, ticks_per_second: u64, seed: Seed) -> Self {
        Self {
            limiter: Limiter::of_queries(config, ticks_per_second, seed),
            exempts_cookies: config.ratelimit.exempt_valid_cookies,
        }
    }

    /// The stage with a limiter that limits nothing.
    pub fn off(limiter: Limiter) -> Self {
        Self { limiter, exempts_cookies: false }
    }

    /// Its limiter.
    pub fn limiter(&mut self) -> &mut Limiter {
        &mut self.limiter
    }
}

impl Stage for RateLimit {
    const NAME: StageName = StageName::RateLimit;

    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.limiter.is_off()
    }

    fn act(&mut self, packet: &mut Packet, context: &Context) -> Step {
        let client = self.limiter.client(packet);
        self.judge(packet, client, context)
    }

    /// Who a client is is worked out once, when the loading of its bucket begins.
    #[inline]
    fn process(&mut self, batch: &mut Batch, context: &Context, exits: &mut Exits) {
        let here = Step::at(Self::NAME);
        let mut run = Run::new(exits);
        if self.is_idle() {
            for packet in batch.iter_mut().filter(|packet| packet.step == here) {
                packet.step = Self::go_on(packet);
                run.count(packet.step);
            }
            return;
        }
        let mut clients = [0; MAX_BATCH];
        for (packet, client) in batch.iter().zip(&mut clients) {
            if packet.step == here {
                *client = self.limiter.client(packet);
            }
        }
        for (packet, client) in batch.iter_mut().zip(clients) {
            if packet.step == here {
                packet.step = self.judge(packet, client, context);
                debug_assert!(packet.step.is_below(Self::NAME), "steps only go down the line");
                run.count(packet.step);
            }
        }
    }
}

impl RateLimit {
    /// Where a packet within the limits goes: on, unless it has an answer.
    #[inline(always)]
    fn go_on(packet: &Packet) -> Step {
        if packet.answer == Answer::None { Self::CONTINUE } else { Step::ANSWER }
    }

    #[inline(always)]
    fn judge(&mut self, packet: &mut Packet, client: u64, context: &Context) -> Step {
        let is_exempt = self.exempts_cookies && packet.layout.flags.has(Flags::RIGHT_COOKIE);
        if is_exempt {
            return Self::go_on(packet);
        }
        match self.limiter.judge(packet, client, context.now) {
            LimitDecision::Pass => Self::go_on(packet),
            LimitDecision::Drop => Step::drop(Reason::RateLimited),
            LimitDecision::Slip => {
                // An error is as short as an answer with TC=1 and says more, so it slips through as it is.
                if packet.answer == Answer::None {
                    packet.answer = Answer::Truncated;
                }
                Step::ANSWER
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pmdns_config::View;

    use super::*;
    use crate::testing::{OUR_IPV6, QueryFrame, act_once, query};
    use crate::wire::dns::Rcode;
    use crate::wire::ip::ETHERNET_LEN;
    use crate::wire::layout::Who;

    const PASSED: Step = RateLimit::CONTINUE;
    const ANSWERED: Step = Step::ANSWER;
    const DROPPED: Step = Step::drop(Reason::RateLimited);

    /// Ten queries a second, three at once, on a clock of a thousand ticks a second.
    fn settings() -> pmdns_config::RateLimitSettings {
        pmdns_config::RateLimitSettings {
            queries_per_second: 10,
            burst: 3,
            ipv4_prefix: 24,
            ipv6_prefix: 56,
            slip: 0,
            exempt_valid_cookies: true,
            table: 64,
            ..Default::default()
        }
    }

    fn limiter(settings: &pmdns_config::RateLimitSettings) -> RateLimit {
        limiter_with(settings, Vec::new())
    }

    fn limiter_with(settings: &pmdns_config::RateLimitSettings, views: Vec<View>) -> RateLimit {
        let config = Config { ratelimit: settings.clone(), views, ..Config::default() };
        RateLimit::new(&config, 1000, Seed::new(*b"sixteen letters!"))
    }

    /// The packet of an IPv4 client as parse would hand it on.
    fn packet_from(source: [u8; 4]) -> Packet {
        let mut packet = QueryFrame { source: source.to_vec(), ..query("www.example. A") }.packet();
        packet.layout.l3 = ETHERNET_LEN as u8;
        packet
    }

    /// The same for an IPv6 client.
    fn packet_over_ipv6(source: [u8; 16]) -> Packet {
        let query = query("www.example. A").over_ipv6();
        let mut packet = QueryFrame { source: source.to_vec(), ..query }.packet();
        packet.layout.l3 = ETHERNET_LEN as u8;
        packet.layout.flags.set(Flags::IPV6);
        packet
    }

    /// The packet as if its client had sent it over a stream.
    fn over_a_stream(mut packet: Packet) -> Packet {
        packet.layout.l4 = pmdns_nics::stream::STREAM_UDP;
        packet
    }

    fn ask(limiter: &mut RateLimit, packet: Packet, now: u64) -> (Step, Answer) {
        let packet = act_once(limiter, packet, &Context { now, seconds: 0 });
        (packet.step, packet.answer)
    }

    fn steps<const N: usize>(limiter: &mut RateLimit, source: [u8; 4], now: u64) -> [Step; N] {
        [(); N].map(|()| ask(limiter, packet_from(source), now).0)
    }

    #[test]
    fn beyond_the_burst_queries_are_dropped_until_tokens_come_back() {
        let mut limiter = limiter(&settings());
        let client = [192, 0, 2, 1];
        assert_eq!(steps(&mut limiter, client, 5000), [PASSED, PASSED, PASSED, DROPPED]);
        assert_eq!(steps(&mut limiter, client, 5099), [DROPPED]);
        assert_eq!(steps(&mut limiter, client, 5100), [PASSED, DROPPED]);
        assert_eq!(steps(&mut limiter, client, 9000), [PASSED, PASSED, PASSED, DROPPED]);
    }

    #[test]
    fn a_view_has_a_limit_of_its_own_and_its_clients_buckets_of_their_own() {
        let view = |queries_per_second, burst| View {
            name: "v".into(),
            queries_per_second,
            burst,
            ..View::default()
        };
        let views = vec![view(None, None), view(Some(1), Some(1)), view(Some(0), None)];
        for everyone in [0, 10] {
            let settings =
                pmdns_config::RateLimitSettings { queries_per_second: everyone, ..settings() };
            let mut limiter = limiter_with(&settings, views.clone());
            assert!(!limiter.is_idle());
            let mut passes = |view| {
                (0..9)
                    .filter(|_| {
                        let mut packet = packet_from([192, 0, 2, 1]);
                        packet.layout.who = Who::in_view(view, 0);
                        ask(&mut limiter, packet, 0).0 == PASSED
                    })
                    .count()
            };
            let of_others = if everyone == 0 { 9 } else { 3 };
            assert_eq!([0, 1, 2, 3].map(&mut passes), [of_others, of_others, 1, 9]);
        }
        let mut limiter = limiter_with(
            &pmdns_config::RateLimitSettings { queries_per_second: 0, ..settings() },
            vec![view(None, None)],
        );
        assert!(limiter.is_idle());
        assert_eq!(steps(&mut limiter, [192, 0, 2, 1], 0), [PASSED; 50]);
    }

    #[test]
    fn zero_queries_per_second_is_no_limit_and_takes_no_memory() {
        let mut limiter = limiter(&pmdns_config::RateLimitSettings {
            queries_per_second: 0,
            table: u32::MAX,
            ..settings()
        });
        assert_eq!(steps(&mut limiter, [192, 0, 2, 1], 0), [PASSED; 50]);
    }

    #[test]
    fn clients_of_one_prefix_share_a_bucket_and_others_do_not_notice() {
        let mut limiter = limiter(&settings());
        assert_eq!(steps(&mut limiter, [192, 0, 2, 1], 0), [PASSED, PASSED, PASSED, DROPPED]);
        assert_eq!(steps(&mut limiter, [192, 0, 2, 255], 0), [DROPPED]);
        assert_eq!(steps(&mut limiter, [192, 0, 3, 1], 0), [PASSED, PASSED, PASSED, DROPPED]);
    }

    #[test]
    fn ipv6_prefixes_count_by_their_own_length() {
        let mut limiter = limiter(&settings());
        let packet = |byte: usize, value: u8| {
            let mut source = OUR_IPV6;
            source[byte] = value;
            packet_over_ipv6(source)
        };
        for host in 1..=3 {
            assert_eq!(ask(&mut limiter, packet(15, host), 0).0, PASSED);
        }
        assert_eq!(ask(&mut limiter, packet(15, 4), 0).0, DROPPED);
        assert_eq!(ask(&mut limiter, packet(7, 1), 0).0, DROPPED, "beyond the 56 bits");
        assert_eq!(ask(&mut limiter, packet(6, 1), 0).0, PASSED, "within the 56 bits");
        // As ASCII letters the two bytes would be equal.
        for _ in 0..4 {
            ask(&mut limiter, packet(6, b'A'), 0);
        }
        assert_eq!(ask(&mut limiter, packet(6, b'a'), 0).0, PASSED);
    }

    #[test]
    fn the_families_do_not_share_buckets() {
        let mut limiter = limiter(&settings());
        assert_eq!(steps(&mut limiter, [10, 0, 0, 1], 0), [PASSED, PASSED, PASSED, DROPPED]);
        let mut same_number = [0; 16];
        same_number[4] = 10;
        assert_eq!(ask(&mut limiter, packet_over_ipv6(same_number), 0).0, PASSED);
    }

    #[test]
    fn a_length_of_zero_is_one_bucket_for_all() {
        let mut limiter =
            limiter(&pmdns_config::RateLimitSettings { ipv4_prefix: 0, ..settings() });
        assert_eq!(steps(&mut limiter, [192, 0, 2, 1], 0), [PASSED; 3]);
        assert_eq!(steps(&mut limiter, [1, 0, 0, 1], 0), [DROPPED]);
    }

    #[test]
    fn clients_behind_one_address_are_told_apart_by_their_blocks_of_ports() {
        let settings = pmdns_config::RateLimitSettings {
            ipv4_prefix: 32,
            ipv4_port_bits: 4,
            ipv4_port_prefixes: vec!["0.0.0.0/0".parse().unwrap()],
            ..settings()
        };
        let mut limiter = limiter(&settings);
        let mut from = |source_port| {
            let mut packet = QueryFrame { source_port, ..query("a. A") }.packet();
            (packet.layout.l3, packet.layout.l4) = (14, 34);
            ask(&mut limiter, packet, 0).0
        };
        assert_eq!([from(4096), from(5000), from(6000)], [PASSED; 3]);
        assert_eq!([from(8191), from(8192)], [DROPPED, PASSED]);
    }

    #[test]
    fn every_slip_th_query_over_the_limit_is_told_to_use_tcp() {
        for (slip, expected) in [
            (0, [DROPPED; 6]),
            (1, [ANSWERED; 6]),
            (2, [DROPPED, ANSWERED, DROPPED, ANSWERED, DROPPED, ANSWERED]),
            (3, [DROPPED, DROPPED, ANSWERED, DROPPED, DROPPED, ANSWERED]),
        ] {
            let mut limiter = limiter(&pmdns_config::RateLimitSettings { slip, ..settings() });
            assert_eq!(steps(&mut limiter, [192, 0, 2, 1], 0), [PASSED; 3]);
            assert_eq!(steps(&mut limiter, [192, 0, 2, 1], 0), expected, "slip {slip}");
        }
        let mut limiter = limiter(&pmdns_config::RateLimitSettings { slip: 1, ..settings() });
        assert_eq!(steps(&mut limiter, [192, 0, 2, 1], 0), [PASSED; 3]);
        let over = ask(&mut limiter, packet_from([192, 0, 2, 1]), 0);
        assert_eq!(over, (ANSWERED, Answer::Truncated));
    }

    /// Forged datagrams empty the bucket of their prefix. Its real client is told to use TCP, and is answered there.
    #[test]
    fn a_flood_over_udp_takes_nothing_from_clients_over_streams() {
        let view = || View { name: "v".into(), burst: Some(3), ..View::default() };
        for views in [vec![], vec![view()]] {
            let slipping = pmdns_config::RateLimitSettings { slip: 1, ..settings() };
            let mut limiter = limiter_with(&slipping, views);
            let mut over_udp = |now| ask(&mut limiter, packet_from([192, 0, 2, 1]), now);
            for now in 0..=1000 {
                over_udp(now);
            }
            assert_eq!(over_udp(1050), (ANSWERED, Answer::Truncated));
            let mut over_tcp = || {
                let packet = over_a_stream(packet_from([192, 0, 2, 7]));
                ask(&mut limiter, packet, 1050).0
            };
            // Streams have a limit as well, and nobody is sent from TCP to TCP.
            assert_eq!([(); 4].map(|()| over_tcp()), [PASSED, PASSED, PASSED, DROPPED]);
            let next = over_a_stream(packet_from([192, 0, 3, 7]));
            assert_eq!(ask(&mut limiter, next, 1050).0, PASSED, "another prefix");
        }
    }

    #[test]
    fn a_right_cookie_exempts_unless_the_operator_says_otherwise() {
        for (exempt_valid_cookies, fourth) in [(true, PASSED), (false, DROPPED)] {
            let mut limiter =
                limiter(&pmdns_config::RateLimitSettings { exempt_valid_cookies, ..settings() });
            let mut ask = |facts| {
                let mut packet = packet_from([192, 0, 2, 1]);
                packet.layout.flags.set(facts);
                ask(&mut limiter, packet, 0).0
            };
            let right = Flags::COOKIE.and(Flags::RIGHT_COOKIE);
            assert_eq!([ask(right), ask(right), ask(right)], [PASSED; 3]);
            assert_eq!(ask(right), fourth);
            if exempt_valid_cookies {
                assert_eq!(
                    [ask(Flags::COOKIE), ask(Flags::COOKIE), ask(Flags::COOKIE)],
                    [PASSED; 3]
                );
            }
            assert_eq!(ask(Flags::COOKIE), DROPPED, "a cookie that is not ours");
        }
    }

    #[test]
    fn a_decided_query_counts_and_keeps_its_error() {
        let mut limiter = limiter(&pmdns_config::RateLimitSettings { slip: 2, ..settings() });
        let formerr = Answer::Rcode(Rcode::FORMERR);
        let mut ask = || {
            let mut packet = packet_from([192, 0, 2, 1]);
            packet.answer = formerr;
            ask(&mut limiter, packet, 0)
        };
        for _ in 0..3 {
            assert_eq!(ask(), (ANSWERED, formerr));
        }
        assert_eq!(ask().0, DROPPED);
        assert_eq!(ask(), (ANSWERED, formerr), "the second over the limit slips through");
    }

    #[test]
    fn exempt_clients_are_not_counted() {
        let mut limiter = limiter(&settings());
        for _ in 0..20 {
            let mut packet = packet_from([192, 0, 2, 1]);
            packet.layout.who = Who::EXEMPT;
            assert_eq!(ask(&mut limiter, packet, 0).0, PASSED);
        }
        // Of the same /24, which shares the bucket.
        assert_eq!(steps(&mut limiter, [192, 0, 2, 129], 0), [PASSED, PASSED, PASSED, DROPPED]);
    }

    #[test]
    fn a_dry_run_drops_nothing_and_counts() {
        for slip in [0, 2] {
            let settings = pmdns_config::RateLimitSettings { dry_run: true, slip, ..settings() };
            let mut limiter = limiter(&settings);
            assert_eq!(steps(&mut limiter, [192, 0, 2, 1], 0), [PASSED; 10]);
            assert_eq!(limiter.limiter.dry_run_passed(), 7, "three were within the limit");
            limiter.limiter.swap_rules(&mut self::limiter(&self::settings()).limiter);
            assert_eq!(limiter.limiter.dry_run_passed(), 7, "a counter outlives a reload");
        }
    }

    /// Aliases of one interface once shared what each was granted, and one flood slowed all.
    #[test]
    fn trap_22_a_flood_from_one_source_does_not_slow_others() {
        let mut limiter = limiter(&settings());
        for round in 0..1000u32 {
            let flood = steps::<8>(&mut limiter, [192, 0, 2, 1], u64::from(round));
            let passed = flood.iter().filter(|step| **step == PASSED).count();
            assert!(passed <= if round == 0 { 3 } else { 1 }, "round {round}");
            let [_, _, high, low] = (round % 500).to_be_bytes();
            let step = steps(&mut limiter, [10, high, low, 1], u64::from(round));
            assert_eq!(step, [PASSED], "another client");
        }
    }

    #[test]
    fn who_floods_does_not_start_afresh_after_a_reload() {
        let client = [192, 0, 2, 1];
        let mut limiter = limiter(&settings());
        assert_eq!(steps(&mut limiter, client, 0), [PASSED, PASSED, PASSED, DROPPED]);
        limiter.limiter.swap_rules(&mut self::limiter(&settings()).limiter);
        assert_eq!(steps(&mut limiter, client, 0), [DROPPED]);
        let slipping = pmdns_config::RateLimitSettings { slip: 1, ..settings() };
        limiter.limiter.swap_rules(&mut self::limiter(&slipping).limiter);
        assert_eq!(steps(&mut limiter, client, 0), [ANSWERED], "the new slip, the old bucket");
        let faster = pmdns_config::RateLimitSettings { burst: 4, ..settings() };
        limiter.limiter.swap_rules(&mut self::limiter(&faster).limiter);
        assert_eq!(steps(&mut limiter, client, 0), [PASSED; 4], "another limit has other buckets");
    }

    #[test]
    fn one_off_clients_do_not_make_the_table_forget_one_that_floods() {
        let mut limiter = limiter(&settings());
        let flood = [192, 0, 2, 1];
        assert_eq!(steps(&mut limiter, flood, 0), [PASSED; 3]);
        for other in 0..20_000u32 {
            let [_, _, high, low] = other.to_be_bytes();
            assert_eq!(steps(&mut limiter, [10, high, low, 1], 0), [PASSED], "fails open");
        }
        assert_eq!(steps(&mut limiter, flood, 0), [DROPPED]);
    }
}
