//! Plays a scenario: real frames through the whole line, step by step, and the clock only goes on where a step says so.
//!
//! The order is that of Unbound's testbound. Before each step the upstreams say what the file's ranges have for that step, until
//! nothing is left to say. At the end no answer is left that the file did not ask for, and no query without a reply.

use std::time::Duration;

use pmdns_config::Config;
use pmdns_hierarchy::message::flag;
use pmdns_hierarchy::{Message, Name, rtype};
use pmdns_stages::testing::{QueryFrame, query};

use super::client_cache;
use super::comparison::{difference, is_dnssec_ok, is_for, relayed, with_soa_of_denial};
use super::grammar::{DNSSEC_OK, Entry, Event, Scenario};
use super::stepping::{DATE, Setup, Stepping};
use super::translation::Setting;
use super::upstreams::{Servers, Upstreams, message_of};

/// Where a frame over IPv4 has its message.
const MESSAGE_AT: usize = 42;
/// What passes between two turns: so little that a scenario stays within its second.
const TICK: Duration = Duration::from_micros(100);
/// Turns without anything new after which everything has settled.
const QUIET_TURNS: u32 = 8;
/// How long traffic may last that nobody waits for, such as notes of hits and prefetching.
const TRAFFIC: Duration = Duration::from_millis(300);
/// How long clients and upstreams are waited for where a scenario has no reply for them, and in which steps.
const PATIENCE: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_millis(10);

/// A scenario that is being played.
pub(crate) struct Play<'a> {
    scenario: &'a Scenario,
    servers: Servers<'a>,
    setting: &'a Setting,
    line: Stepping,
    upstreams: Upstreams,
    answers: Vec<Message>,
    /// The queries so far.
    asked: Vec<Message>,
    /// Questions whose queries were lost.
    lost: Vec<(Name, u16, u16)>,
    /// Where the scenario's own time stands.
    time: Duration,
}

impl<'a> Play<'a> {
    /// One that has not begun.
    pub(crate) fn new(scenario: &'a Scenario, setting: &'a Setting) -> Result<Self, String> {
        let config = Config::from_toml(&setting.toml);
        let config = config.map_err(|error| format!("{error}\n{}", setting.toml))?;
        let date = setting.date.unwrap_or(DATE);
        let line = Stepping::new(
            &config,
            &Setup { seed: 1, frames: 256, sockets: 64, port_queries: 64, date },
        );
        let servers = Servers {
            ranges: &scenario.ranges,
            iterates: setting.iterates,
            last_counts: setting.is_client_cache,
        };
        let (upstreams, answers) = (Upstreams::default(), Vec::new());
        let time = Duration::from_millis(100);
        line.time.advance(time);
        Ok(Self {
            scenario,
            servers,
            setting,
            line,
            upstreams,
            answers,
            asked: Vec::new(),
            lost: Vec::new(),
            time,
        })
    }

    /// Plays it. An error comes with the number of its step, or `end`.
    pub(crate) fn run(mut self) -> Result<(), (String, String)> {
        let mut has_jumped = false;
        for step in &self.scenario.steps {
            // A client that asks as soon as time has passed is faster than what is done about the time.
            if !(has_jumped && matches!(step.event, Event::Query(_))) {
                self.settle(step.number, &step.event);
            }
            has_jumped = matches!(step.event, Event::TimePasses(_));
            self.act(step.number, &step.event)
                .map_err(|why| (step.number.to_string(), format!("line {}: {why}", step.line)))?;
        }
        self.check_end().map_err(|why| ("end".to_owned(), why))
    }

    /// Nothing is left.
    fn check_end(&self) -> Result<(), String> {
        if let Some(answer) = self.answers.first() {
            return Err(format!("nobody asked for the answer {answer:?}"));
        }
        // What has been lost may be asked again.
        let mut pending = self.upstreams.pending.iter();
        match pending.find(|pending| !self.lost.contains(&pending.query.question)) {
            Some(pending) => Err(format!("no reply to the query {:?}", pending.query)),
            None => Ok(()),
        }
    }

    fn act(&mut self, number: u32, event: &Event) -> Result<(), String> {
        match event {
            Event::Nothing => Ok(()),
            Event::Query(entry) => self.ask(entry),
            Event::CheckAnswer(entry) => self.check_answer(number, entry),
            Event::CheckQuery(entry) => {
                let queries = || self.upstreams.pending.iter().map(|pending| &pending.query);
                match queries().any(|query| is_for(entry, query, true)) {
                    true => Ok(()),
                    false => Err(format!("no such query in {:?}", queries().collect::<Vec<_>>())),
                }
            }
            Event::Reply(entry) => self.reply(entry),
            Event::Timeout => self.lose(number, Upstreams::lose),
            Event::Error => self.lose(number, Upstreams::fail),
            Event::TimePasses(duration) => {
                self.pass(*duration);
                Ok(())
            }
            Event::Traffic => {
                let end = self.line.now() + TRAFFIC;
                while self.line.now() < end {
                    self.line.time.advance(WAIT);
                    self.settle(number, event);
                }
                Ok(())
            }
        }
    }

    /// Lets so much time pass. What the play itself has taken counts only if the second stays the scenario's.
    fn pass(&mut self, duration: Duration) {
        self.time += duration;
        let now = self.line.now();
        let is_in_time = (now + duration).as_secs() == self.time.as_secs();
        let duration = if is_in_time { duration } else { self.time.saturating_sub(now) };
        self.line.time.advance(duration);
    }

    /// A client asks.
    fn ask(&mut self, entry: &Entry) -> Result<(), String> {
        if entry.matches.over_tcp {
            return Err("a client asks over TCP".into());
        }
        let message = self.with_flags_of_first(entry.message.clone());
        let (name, qtype, qclass) = &message.question;
        let id = self.asked.len() as u16 + 1;
        let opt = message.sections[2].first();
        let frame = QueryFrame {
            name: name.wire().to_vec(),
            qtype: *qtype,
            qclass: *qclass,
            id,
            flags: message.flags,
            source_port: 1024 + id,
            edns: opt.map(|opt| (opt.class, is_dnssec_ok(&message))),
            options: opt.map_or_else(Vec::new, |opt| opt.data.clone()),
            ..query(". A")
        };
        self.asked.push(message);
        match self.line.offer(0, &frame.frame_bytes()) {
            true => Ok(()),
            false => Err("no room for a query".into()),
        }
    }

    /// A message with RD, CD and DO as in the first query with its question. Unbound keeps one answer for all these
    /// flags, and its files rely on that. pmdns keeps several answers. A client without RD gets no answers that others
    /// asked for (docs/dns.md).
    fn with_flags_of_first(&self, mut message: Message) -> Message {
        let mut asked = self.asked.iter();
        let first = asked.find(|query| query.question == message.question);
        let Some(first) = first.filter(|_| self.setting.keeps_flags) else { return message };
        let kept = flag::RD | flag::CD;
        message.flags = message.flags & !kept | first.flags & kept;
        for opt in message.sections[2].iter_mut().filter(|one| one.rtype == rtype::OPT) {
            opt.ttl = if is_dnssec_ok(first) { DNSSEC_OK } else { 0 };
        }
        message
    }

    /// A client has an answer, or gets it while it is patient.
    fn check_answer(&mut self, number: u32, entry: &Entry) -> Result<(), String> {
        self.wait(number, |play| !play.answers.is_empty());
        let mut expected = self.with_flags_of_first(relayed(entry.message.clone()));
        if self.setting.is_client_cache {
            expected = client_cache::expected(expected);
        }
        if self.setting.denies {
            expected = with_soa_of_denial(expected);
        }
        let differences: Vec<Option<String>> = self
            .answers
            .iter()
            .map(|answer| difference(&entry.matches, &expected, answer))
            .collect();
        match differences.iter().position(Option::is_none) {
            Some(found) => {
                self.answers.remove(found);
                Ok(())
            }
            None if differences.is_empty() => Err("no answer".into()),
            None => {
                let differences: Vec<String> = differences.into_iter().flatten().collect();
                Err(format!("{} in {:?}", differences.join("; "), self.answers))
            }
        }
    }

    /// An upstream answers: the query that this is about, or else the first.
    fn reply(&mut self, entry: &Entry) -> Result<(), String> {
        let pending = &self.upstreams.pending;
        let is_it = |query: &Message| query.question == entry.message.question;
        let found = pending.iter().rposition(|pending| is_it(&pending.query)).unwrap_or(0);
        let query = pending.get(found).ok_or("nothing is asked")?.query.clone();
        self.upstreams.reply(found, message_of(entry, &query));
        Ok(())
    }

    /// A query is lost, in this way. pmdns may have asked less often than Unbound, and have answered already.
    fn lose(&mut self, number: u32, lose: fn(&mut Upstreams, usize)) -> Result<(), String> {
        if self.upstreams.pending.is_empty() {
            let has_given_up = !self.answers.is_empty();
            return has_given_up.then_some(()).ok_or_else(|| "nothing is asked".into());
        }
        self.lost.push(self.upstreams.pending[0].query.question.clone());
        lose(&mut self.upstreams, 0);
        self.wait(number, |play| !(play.answers.is_empty() && play.upstreams.pending.is_empty()));
        Ok(())
    }

    /// Lets time pass until something is so, or patience has ended.
    fn wait(&mut self, number: u32, is_so: impl Fn(&Self) -> bool) {
        let end = self.line.now() + PATIENCE;
        while !is_so(self) && self.line.now() < end {
            self.line.time.advance(WAIT);
            self.settle(number, &Event::Nothing);
        }
    }

    /// Everything under way goes on until nothing does. A query that the step asks for waits for the step.
    fn settle(&mut self, number: u32, event: &Event) {
        let mut quiet = 0;
        while quiet < QUIET_TURNS {
            quiet += 1;
            self.upstreams.now = self.line.now();
            (0..self.line.threads())
                .for_each(|thread| self.line.turn(thread, 1, &mut self.upstreams));
            if self.upstreams.is_busy() {
                self.line.receive(&mut self.upstreams);
                quiet = 0;
            }
            for frame in self.line.sent(&mut self.upstreams) {
                let message = Message::parse(&frame.bytes()[MESSAGE_AT..]);
                let message = message.expect("an answer is a message");
                self.answers.push(match self.setting.is_client_cache {
                    true => client_cache::compared(message),
                    false => message,
                });
                quiet = 0;
            }
            if self.answer_one(number, event) {
                quiet = 0;
            }
            self.line.time.advance(TICK);
        }
    }

    /// Answers the first query that the ranges have a reply to.
    fn answer_one(&mut self, number: u32, event: &Event) -> bool {
        let pending = self.upstreams.pending.iter().enumerate();
        let mut free = pending.filter(|(_, pending)| match event {
            Event::CheckQuery(entry) => !is_for(entry, &pending.query, true),
            _ => true,
        });
        let found =
            free.find_map(|(at, pending)| Some((at, self.servers.reply_to(pending, number)?)));
        let Some((at, reply)) = found else { return false };
        self.upstreams.reply(at, reply);
        true
    }
}
