//! The storm of a history: everything goes wrong that can.

use std::net::IpAddr;
use std::time::Duration;

use pmdns_hierarchy::{Name, rtype};

use crate::cache::{Dump, purge};
use crate::clients::{Ask, TYPES};
use crate::history::History;
use crate::manners::Manners;
use crate::signed;
use crate::truth::Realm;

/// The fewest steps of a storm; some have four times as many.
const FEWEST_STEPS: usize = 100;
/// The longest step of a storm.
const STEP_US: usize = 8_000;

impl History {
    /// Everything goes wrong for a few seconds.
    pub(super) fn storm(&mut self) -> Result<(), String> {
        if self.chance.one_in(6) {
            self.lose_next_hops();
        }
        for _ in 0..FEWEST_STEPS + self.chance.below(3 * FEWEST_STEPS) {
            self.ask_something();
            if self.chance.one_in(12) {
                self.change_manners();
            }
            if self.chance.one_in(60) {
                self.trouble_the_machine();
            }
            if self.chance.one_in(60) {
                self.give_an_order();
            }
            if let Some(operator) = &mut self.operator
                && self.chance.one_in(15)
            {
                operator.block(self.line.now(), &mut self.chance);
            }
            if self.chance.one_in(20) {
                self.trouble_the_link();
            }
            let step = Duration::from_micros(1 + self.chance.below(STEP_US) as u64);
            self.step(step)?;
        }
        Ok(())
    }

    fn change_manners(&mut self) {
        let server = self.chance.below(self.internet.servers.len());
        let manners = match self.chance.below(3) {
            0 => Manners::good(),
            _ => Manners::bad(&mut self.chance),
        };
        self.internet.servers[server].manners = manners;
        self.note(format_args!("{} is {manners:?}", self.internet.servers[server].address));
    }

    fn trouble_the_machine(&mut self) {
        let now = self.line.now();
        match self.chance.below(6) {
            0 => self.internet.has_sockets = !self.internet.has_sockets,
            1 => {
                let threads = self.line.threads();
                let until = now + Duration::from_millis(20 + self.chance.below(700) as u64);
                self.stalled = Some((self.chance.below(threads), until));
                self.note(format_args!("stalled: {:?}", self.stalled));
            }
            2 => {
                let seconds = 1 + self.chance.below(60) as u32;
                self.jump_ahead(seconds);
            }
            3 => {
                self.kept = std::iter::from_fn(|| self.line.rig.pool.take()).collect();
                self.note(format_args!("the pool is empty"));
            }
            _ => {
                self.kept.clear();
                self.internet.has_sockets = true;
            }
        }
    }

    /// The machine sleeps for so long.
    pub(super) fn jump_ahead(&mut self, seconds: u32) {
        self.take_in_replies();
        // An answer may lie in a ring over several jumps.
        self.jump = (self.jumped() + seconds, self.turns);
        self.line.time.advance(Duration::from_secs(seconds.into()));
        self.internet.now = self.line.now();
        self.internet.lose_all_under_way();
        self.note(format_args!("the clock jumps"));
    }

    fn give_an_order(&mut self) {
        let now = self.line.now();
        if let Some(operator) = &mut self.operator
            && self.chance.below(4) > 0
        {
            return operator.act(now, &mut self.chance);
        }
        match self.chance.below(3) {
            0 => {
                let realm = [Realm::Public, Realm::Inner, Realm::Secret][self.chance.below(3)];
                let thread = self.chance.below(self.line.slow_path.len());
                self.note(format_args!("thread {thread} loses {realm:?}"));
                purge(&mut self.line, thread, realm);
            }
            1 => {
                self.note(format_args!("what was written down is taken back"));
                self.dump.iter().for_each(|dump| dump.load(&mut self.line));
            }
            _ => self.dump = Some(Dump::begin(&mut self.line)),
        }
    }

    /// Clients of all kinds ask.
    fn ask_something(&mut self) {
        match self.chance.below(200) {
            0 => {
                let (name, qtype) = self.question(8);
                for _ in 0..20 + self.chance.below(130) {
                    let client = self.client();
                    self.ask(Ask::new(client, name.clone(), qtype));
                }
            }
            1 => {
                let network = self.chance.below(250) as u8;
                for _ in 0..20 + self.chance.below(100) {
                    let client = [203, 0, network, self.chance.below(256) as u8];
                    let (name, qtype) = self.question(1 << 20);
                    self.ask(Ask::new(client, name, qtype));
                }
            }
            100 => {
                for _ in 0..20 + self.chance.below(100) {
                    let client = self.spoofed();
                    let (name, qtype) = self.question(1 << 20);
                    self.ask(Ask::new(client, name, qtype));
                }
            }
            101..110 => {
                // A client whose patience is over, whether it has its answer or not.
                let again = self.again.pop_front();
                again.into_iter().for_each(|ask| self.ask(ask));
            }
            2 => self.clients.send_rubbish(&mut self.line, &[0x55; 60]),
            3..100 => {
                let (client, (name, qtype)) = (self.client(), self.question(8));
                let mut ask = Ask::new(client, name, qtype);
                ask.dnssec = [None, Some(false), Some(true)][self.chance.below(3)];
                ask.checks = self.chance.one_in(10);
                ask.comes_twice = self.chance.one_in(10);
                if self.chance.one_in(8) {
                    self.again.push_back(ask.clone());
                }
                self.ask(ask);
            }
            _ => {}
        }
    }

    /// An address from anywhere but our own network. Those of no host are dropped before they are queries.
    fn spoofed(&mut self) -> IpAddr {
        let [_, rest @ ..] = (self.chance.number() as u32).to_be_bytes();
        let first = 128 + self.chance.below(96) as u8;
        [first, rest[0], rest[1], rest[2]].into()
    }

    fn client(&mut self) -> IpAddr {
        let (network, host) = (self.chance.below(8) as u8, 3 + self.chance.below(200) as u8);
        match self.chance.one_in(6) {
            true => [0xfd77, 0, 0, network.into(), 0, 0, 0, host.into()].into(),
            false => [10, 77, network, host].into(),
        }
    }

    /// A question about one of so many names of each kind.
    fn question(&mut self, names: usize) -> (Name, u16) {
        if self.operator.is_some() && self.chance.one_in(6) {
            return (Name::new("v.here"), rtype::A);
        }
        if self.start.is_signed {
            return signed::question(&mut self.chance);
        }
        let realm = match self.chance.below(6) {
            0 => Realm::Inner,
            1 => Realm::Secret,
            _ => Realm::Public,
        };
        let number = self.chance.below(names);
        let kind = ["a", "a", "A", "b", "c", "C", "e", "x", "x", "z"][self.chance.below(10)];
        let deeper = if self.chance.one_in(6) { "deep." } else { "" };
        let name = realm.apex().below(&format!("{deeper}{kind}{number}"));
        (name, TYPES[self.chance.below(TYPES.len())])
    }
}
