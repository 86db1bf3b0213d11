//! The calm of a history: everybody has to be served, and then nothing may be left.

use std::collections::BTreeSet;
use std::time::Duration;

use pmdns_hierarchy::{Name, rtype};

use crate::cache::Dump;
use crate::checks::check_quiet;
use crate::clients::Ask;
use crate::history::History;
use crate::manners::{Manners, Trouble};
use crate::operator::Operator;
use crate::signed;
use crate::truth::{Realm, SERVFAIL, TTL};

/// What the operator's failed reloads may need until they are tried again.
const RELOAD_PAUSE: Duration = Duration::from_secs(310);
/// What upstreams, failures and expired answers need until they are asked again.
const RECOVERY: Duration = Duration::from_secs(8);
/// Longer than a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(14);
/// How long it takes until everybody has heard what servers say at once.
const SOON: Duration = Duration::from_millis(300);
/// The longest `timeout_ms` of a server.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(800);
/// In this time nothing falls due, and what is in rings gets on.
const MOMENT: Duration = Duration::from_micros(20);
/// Forged replies in each step of a spray.
const SPRAY: usize = 6;
/// Turns that a worker takes in a step of the calm at most: it spins.
const CALM_TURNS: usize = 1_000;

impl History {
    /// Nothing goes wrong any more, and time passes until that has been noticed.
    pub(super) fn recover(&mut self) -> Result<(), String> {
        self.note(format_args!("calm"));
        for server in &mut self.internet.servers {
            server.manners = Manners::good();
        }
        self.internet.has_sockets = true;
        self.kept.clear();
        self.mend_the_link();
        self.stalled = None;
        self.diligence = CALM_TURNS;
        let now = self.line.now();
        if let Some(operator) = &mut self.operator {
            operator.mend(now);
            self.pass(RELOAD_PAUSE, Duration::from_secs(2))?;
        }
        self.pass(RECOVERY, Duration::from_millis(40))?;
        // By now the last version is in use.
        if let Some(operator) = &mut self.operator {
            operator.versions.0 = operator.versions.1;
        }
        Ok(())
    }

    /// The first datagram about each name is lost, and all clients get an answer nevertheless. That holds while there
    /// are sockets, however slow the upstreams were before. It does not hold with validation, whose queries for keys
    /// would be lost one after the other.
    pub(super) fn lose_first_datagrams(&mut self, round: &str) -> Result<(), String> {
        let is_hasty = self.start.deadline() < 2 * LONGEST_TIMEOUT;
        let is_sure = self.start.is_roomy && !self.start.is_signed && !is_hasty;
        if !is_sure || self.chance.below(2) > 0 {
            return Ok(());
        }
        self.note(format_args!("each first datagram is lost"));
        let before = std::mem::replace(&mut self.diligence, CALM_TURNS);
        self.internet.lost_once = Some(BTreeSet::new());
        self.ask_all(round)?;
        self.internet.lost_once = None;
        self.diligence = before;
        Ok(())
    }

    /// Everybody who asks now has to get an answer, and a true one.
    pub(super) fn calm(&mut self) -> Result<(), String> {
        self.ask_all("1")?;
        self.ask_all("2")?;
        for server in &mut self.internet.servers {
            server.manners.forgers = 1;
        }
        self.note(format_args!("forgers"));
        self.ask_all("3")?;
        for server in &mut self.internet.servers {
            server.manners.forgers = 0;
        }
        if self.line.link.is_some() {
            self.note(format_args!("a spray"));
            self.sprays = SPRAY;
            self.ask_all("4")?;
            self.sprays = 0;
        }
        if self.start.is_roomy && !self.start.is_signed {
            match self.chance.below(3) {
                0 => self.flood()?,
                1 => self.crowd()?,
                _ => self.failing_crowd()?,
            }
        }
        if self.start.is_vast {
            self.burst()?;
        }
        Ok(())
    }

    /// A question about each kind of name.
    fn ask_all(&mut self, round: &str) -> Result<(), String> {
        if self.operator.is_some() {
            self.ask(Ask::new([10, 78, 0, 9], Name::new("v.here"), rtype::A).for_sure());
        }
        if self.start.is_signed {
            return self.ask_signed();
        }
        let networks = [([10, 78, 1], Realm::Public), ([10, 78, 2], Realm::Inner)];
        let others = [([10, 78, 3], Realm::Secret), ([10, 77, 6], Realm::Public)];
        for ([a, b, c], realm) in networks.into_iter().chain(others) {
            for (client, kind) in (3..).zip(["a", "c", "e", "x", "b"]) {
                let name = realm.apex().below(&format!("{kind}calm{round}"));
                let qtype = if kind == "b" { rtype::TXT } else { rtype::A };
                self.ask(Ask::new([a, b, c, client], name, qtype).for_sure());
                self.step(Duration::from_millis(3))?;
            }
        }
        self.serve_all()
    }

    /// Some questions about signed zones to which there are answers.
    fn ask_signed(&mut self) -> Result<(), String> {
        for client in 13..22 {
            let (name, qtype) = signed::question(&mut self.chance);
            let is_answered = signed::is_answered(&name, qtype);
            let mut ask = Ask::new([10, 78, client, 3], name, qtype);
            (ask.must_succeed, ask.dnssec) = (is_answered, Some(client % 2 > 0));
            self.ask(ask);
            self.step(Duration::from_millis(3))?;
        }
        self.serve_all()
    }

    /// Waits until everybody is answered who has to be.
    fn serve_all(&mut self) -> Result<(), String> {
        let end = self.line.now() + self.start.deadline() + Duration::from_secs(1);
        while self.line.now() < end {
            self.step(Duration::from_millis(4))?;
            if self.clients.disappointed().is_none() {
                return Ok(());
            }
        }
        self.clients.disappointed().map_or(Ok(()), Err)
    }

    /// Hundreds ask for one name; thousands, if there is room.
    fn crowd(&mut self) -> Result<(), String> {
        self.note(format_args!("a crowd"));
        // All of them wait at one thread.
        let config = &self.start.config;
        let room = config.slowpath.max_waiting / config.slow_path_shards() / 4 * 3;
        let clients = if self.start.is_vast { room.min(3000) as u32 } else { 300 };
        for number in 0..clients {
            // From networks of their own: one has only a share of what there is.
            let client = [11, (number / 200) as u8, (number % 200) as u8, 1];
            self.ask(Ask::new(client, Name::new("acrowd.test"), rtype::A).for_sure());
            if number % 16 == 0 {
                self.step(Duration::from_micros(300))?;
            }
        }
        self.serve_all()
    }

    /// A hundred ask for one name, and every server says at once that it has no answer. All have to hear of that soon.
    fn failing_crowd(&mut self) -> Result<(), String> {
        self.note(format_args!("a failing crowd"));
        for server in &mut self.internet.servers {
            server.manners.trouble = (Trouble::Rcode(SERVFAIL), 1);
        }
        let before = self.clients.unanswered();
        for number in 0..100 {
            self.ask(Ask::new([10, 81, 0, number], Name::new("afailing.test"), rtype::A));
        }
        self.pass(SOON, Duration::from_millis(4))?;
        for server in &mut self.internet.servers {
            server.manners.trouble = Manners::good().trouble;
        }
        match self.clients.unanswered() - before {
            0 => Ok(()),
            left => Err(format!("{left} clients have not heard that their question failed")),
        }
    }

    /// One network asks for more than there is room for. Somebody else asks for little, and gets it.
    fn flood(&mut self) -> Result<(), String> {
        self.note(format_args!("a flood"));
        for number in 0..1200u32 {
            let client = [203, 0, 113, number as u8];
            let name = Name::new(&format!("aflood{number}.test"));
            self.ask(Ask::new(client, name, rtype::A));
            if number % 100 == 50 {
                let name = Name::new(&format!("ahonest{number}.test"));
                self.ask(Ask::new([10, 79, 0, 7], name, rtype::A).for_sure());
            }
            if number % 16 == 0 {
                self.step(Duration::from_micros(500))?;
            }
        }
        self.serve_all()
    }

    /// More is asked of an encrypted upstream at once than it is asked at a time.
    fn burst(&mut self) -> Result<(), String> {
        self.note(format_args!("a burst"));
        for server in &mut self.internet.servers {
            server.manners.delay = (Duration::from_millis(120), Duration::from_millis(150));
        }
        for number in 0..2400u32 {
            let client = [11, (number / 200) as u8, (number % 200) as u8, 1];
            let name = Realm::Secret.apex().below(&format!("aburst{number}"));
            self.ask(Ask::new(client, name, rtype::A).for_sure());
            if number % 16 == 0 {
                self.step(Duration::from_micros(300))?;
            }
        }
        self.serve_all()
    }

    /// Everything that is under way ends by itself.
    pub(super) fn come_to_rest(&mut self) -> Result<(), String> {
        self.note(format_args!("rest"));
        if self.start.config.prefetch.enabled {
            self.pass(Duration::from_secs(2 * u64::from(TTL)), Duration::from_secs(1))?;
        }
        self.pass(IDLE, Duration::from_millis(200))?;
        self.dump = Some(Dump::begin(&mut self.line));
        self.pass(Duration::from_millis(400), Duration::from_millis(20))?;
        self.look_at_dump()?;
        // A next hop may have been asked just now.
        self.pass(MOMENT, MOMENT / 20)?;
        check_quiet(self)?;
        self.operator.as_mut().map_or(Ok(()), Operator::check_told)
    }
}
