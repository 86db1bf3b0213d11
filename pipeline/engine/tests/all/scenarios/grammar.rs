//! The grammar of `.rpl` files: what a file says, as values.
//!
//! Unbound documents it in `testcode/replay.h` (steps and ranges) and `testcode/testpkts.h` (entries).

use std::net::IpAddr;
use std::time::Duration;

use pmdns_hierarchy::message::flag;
use pmdns_hierarchy::{Message, Name, OwnedRecord, rtype};

use super::records;

/// A file.
#[derive(Default)]
pub(crate) struct Scenario {
    /// The lines of its configuration, without comments.
    pub(crate) options: Vec<String>,
    /// What is in the files that the configuration names.
    pub(crate) files: Vec<String>,
    pub(crate) ranges: Vec<Range>,
    pub(crate) steps: Vec<Step>,
}

/// What servers say between two steps, both included.
pub(crate) struct Range {
    pub(crate) steps: (u32, u32),
    /// The server that says it; absent: any.
    pub(crate) address: Option<IpAddr>,
    pub(crate) entries: Vec<Entry>,
}

/// Something that happens.
pub(crate) struct Step {
    pub(crate) number: u32,
    /// Where it is in the file.
    pub(crate) line: usize,
    pub(crate) event: Event,
}

pub(crate) enum Event {
    Nothing,
    /// A client asks.
    Query(Entry),
    /// A client has this answer.
    CheckAnswer(Entry),
    /// An upstream is asked this.
    CheckQuery(Entry),
    /// An upstream answers what it is asked.
    Reply(Entry),
    /// An upstream does not answer in time.
    Timeout,
    /// An upstream cannot be reached.
    Error,
    TimePasses(Duration),
    /// What is under way ends.
    Traffic,
}

/// A message, and how to compare others with it.
pub(crate) struct Entry {
    pub(crate) matches: Matches,
    /// Whether a reply takes over the question of its query.
    pub(crate) copies_question: bool,
    /// If it has an OPT record, that is in its additional section.
    pub(crate) message: Message,
}

/// What has to be alike.
#[derive(Default)]
pub(crate) struct Matches {
    pub(crate) opcode: bool,
    pub(crate) qtype: bool,
    pub(crate) qname: bool,
    /// The name is the entry's, or below it.
    pub(crate) subdomain: bool,
    /// Flags, rcode and all records.
    pub(crate) all: bool,
    /// TTLs too.
    pub(crate) ttl: bool,
    pub(crate) dnssec_ok: bool,
    pub(crate) over_tcp: bool,
    /// Flags that have to be set.
    pub(crate) flags: u16,
    /// The extended error that has to be there.
    pub(crate) extended_error: Option<u16>,
    pub(crate) server_cookie: bool,
}

/// The UDP size of those who send an OPT record, and its flag DO.
const UDP_SIZE: u16 = 1232;
pub(crate) const DNSSEC_OK: u32 = 0x8000;

impl Scenario {
    /// Reads a file.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut scenario = Self::default();
        let mut lines = Lines { lines: text.lines(), number: 0 };
        scenario.read(&mut lines).map_err(|why| format!("line {}: {why}", lines.number))?;
        Ok(scenario)
    }

    fn read(&mut self, lines: &mut Lines<'_>) -> Result<(), String> {
        self.read_options(lines)?;
        loop {
            match &lines.words()?[..] {
                ["SCENARIO_BEGIN", ..] => {}
                ["SCENARIO_END"] => return Ok(()),
                ["RANGE_BEGIN", first, last] => {
                    self.ranges.push(Range::parse((number(first)?, number(last)?), lines)?);
                }
                ["STEP", step, event, more @ ..] => {
                    let (number, line) = (number(step)?, lines.number);
                    let event = Event::parse(event, more, lines)?;
                    self.steps.push(Step { number, line, event });
                }
                _ => return Err("no range and no step".into()),
            }
        }
    }

    fn read_options(&mut self, lines: &mut Lines<'_>) -> Result<(), String> {
        loop {
            let line = lines.line()?;
            match &line.split_whitespace().collect::<Vec<_>>()[..] {
                ["CONFIG_END"] => return Ok(()),
                ["TEMPFILE_NAME", _] => {}
                ["TEMPFILE_CONTENTS", _] => {
                    let content = lines.lines.by_ref().take_while(|line| *line != "TEMPFILE_END");
                    let content: Vec<&str> = content.collect();
                    lines.number += content.len() + 1;
                    self.files.push(content.join("\n"));
                }
                _ => self.options.push(line.split('#').next().unwrap_or(line).trim().to_owned()),
            }
        }
    }
}

impl Range {
    fn parse(steps: (u32, u32), lines: &mut Lines<'_>) -> Result<Self, String> {
        let mut range = Self { steps, address: None, entries: Vec::new() };
        loop {
            match &lines.words()?[..] {
                ["ADDRESS", address] => range.address = Some(ip_address(address)?),
                ["ENTRY_BEGIN"] => range.entries.push(Entry::parse(lines)?),
                ["RANGE_END"] => return Ok(range),
                _ => return Err("no entry of a range".into()),
            }
        }
    }
}

impl Event {
    /// Whether something is checked.
    pub(crate) fn is_check(&self) -> bool {
        matches!(self, Self::CheckAnswer(_) | Self::CheckQuery(_))
    }

    fn parse(event: &str, more: &[&str], lines: &mut Lines<'_>) -> Result<Self, String> {
        let mut entry = || match &lines.words()?[..] {
            ["ENTRY_BEGIN"] => Entry::parse(lines),
            _ => Err("no entry of a step".to_owned()),
        };
        match (event, more) {
            ("NOTHING", []) => Ok(Self::Nothing),
            ("QUERY", []) => Ok(Self::Query(entry()?)),
            ("QUERY", ["ADDRESS", _]) => {
                entry().and_then(|_| Err("a query from an address of its own".into()))
            }
            ("CHECK_ANSWER", []) => Ok(Self::CheckAnswer(entry()?)),
            ("CHECK_OUT_QUERY", []) => Ok(Self::CheckQuery(entry()?)),
            ("REPLY", []) => Ok(Self::Reply(entry()?)),
            ("TIMEOUT", []) => Ok(Self::Timeout),
            ("ERROR", []) => Ok(Self::Error),
            ("TRAFFIC", []) => Ok(Self::Traffic),
            ("TIME_PASSES", ["ELAPSE", seconds]) => {
                let seconds = seconds.parse().map_err(|_| format!("`{seconds}` is no time"))?;
                Ok(Self::TimePasses(Duration::from_secs_f64(seconds)))
            }
            _ => Err(format!("a step {event} {more:?} is unknown")),
        }
    }
}

impl Entry {
    fn parse(lines: &mut Lines<'_>) -> Result<Self, String> {
        let mut entry = Self {
            matches: Matches::default(),
            copies_question: false,
            message: Message {
                id: 0,
                flags: 0,
                question: (Name::root(), 0, 1),
                sections: Default::default(),
            },
        };
        let (mut section, mut texts) = (0, <[String; 3]>::default());
        let mut opt: Option<(u32, Vec<u8>)> = None;
        loop {
            let line = lines.line()?;
            match &line.split_whitespace().collect::<Vec<_>>()[..] {
                ["ENTRY_END"] => break,
                ["MATCH", words @ ..] => {
                    words.iter().try_for_each(|word| entry.matches.set(word))?;
                }
                ["ADJUST", words @ ..] => entry.copies_question |= words.contains(&"copy_query"),
                ["REPLY", words @ ..] => {
                    if words.contains(&"DO") {
                        opt.get_or_insert_default().0 = DNSSEC_OK;
                    }
                    for word in words.iter().filter(|word| **word != "DO") {
                        entry.message.flags |= flags(word)?;
                    }
                }
                ["SECTION", name] => {
                    let names = ["QUESTION", "ANSWER", "AUTHORITY", "ADDITIONAL"];
                    let found = names.iter().position(|one| one == name);
                    section = found.ok_or_else(|| format!("no section is called {name}"))?;
                }
                ["HEX_EDNSDATA_BEGIN"] => opt.get_or_insert_default().1 = hex(lines)?,
                words if section == 0 => entry.message.question = records::question(words)?,
                _ => texts[section - 1] += &format!("{line}\n"),
            }
        }
        for (section, text) in entry.message.sections.iter_mut().zip(&texts) {
            *section = records::records(text)?;
        }
        if let Some((ttl, data)) = opt {
            let (owner, class) = (Name::root(), UDP_SIZE);
            let opt = OwnedRecord { owner, rtype: rtype::OPT, class, ttl, data };
            entry.message.sections[2].push(opt);
        }
        Ok(entry)
    }
}

impl Matches {
    fn set(&mut self, word: &str) -> Result<(), String> {
        match word {
            "opcode" => self.opcode = true,
            "qtype" => self.qtype = true,
            "qname" => self.qname = true,
            "subdomain" => self.subdomain = true,
            "all" => self.all = true,
            "ttl" => self.ttl = true,
            "DO" => self.dnssec_ok = true,
            "TCP" => self.over_tcp = true,
            "AD" | "CD" | "RD" => self.flags |= flags(word)?,
            "server_cookie" => self.server_cookie = true,
            _ => match word.strip_prefix("ede=") {
                Some(code) => self.extended_error = Some(number(code)? as u16),
                None => return Err(format!("MATCH {word} is unknown")),
            },
        }
        Ok(())
    }
}

/// The flags word that a word of a REPLY line stands for.
fn flags(word: &str) -> Result<u16, String> {
    Ok(match word {
        "QR" => flag::QR,
        "AA" => flag::AA,
        "TC" => flag::TC,
        "RD" => flag::RD,
        "RA" => flag::RA,
        "AD" => flag::AD,
        "CD" => flag::CD,
        "NOERROR" | "QUERY" => 0,
        "FORMERR" => 1,
        "SERVFAIL" => 2,
        "NXDOMAIN" => 3,
        "NOTIMP" => 4,
        "REFUSED" => 5,
        "YXRRSET" => 7,
        "NOTIFY" => 4 << 11,
        _ => return Err(format!("REPLY {word} is unknown")),
    })
}

fn hex(lines: &mut Lines<'_>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    loop {
        match &lines.words()?[..] {
            ["HEX_EDNSDATA_END"] => return Ok(bytes),
            words => {
                for word in words {
                    let byte = u8::from_str_radix(word, 16);
                    bytes.push(byte.map_err(|_| format!("`{word}` is no byte"))?);
                }
            }
        }
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

/// An address, as an operator writes it.
pub(crate) fn ip_address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is no address"))
}

/// The lines that are not read yet.
struct Lines<'t> {
    lines: std::str::Lines<'t>,
    /// How many are read.
    number: usize,
}

impl<'t> Lines<'t> {
    /// The next that says something, without its comment.
    fn line(&mut self) -> Result<&'t str, String> {
        loop {
            self.number += 1;
            let line = self.lines.next().ok_or("the file ends too early")?;
            let is_quoted = |at: usize| line[..at].matches('"').count() % 2 == 1;
            let comment = line.match_indices(';').find(|(at, _)| !is_quoted(*at));
            let line = comment.map_or(line, |(at, _)| &line[..at]).trim();
            if !line.is_empty() {
                return Ok(line);
            }
        }
    }

    /// Its words.
    fn words(&mut self) -> Result<Vec<&'t str>, String> {
        Ok(self.line()?.split_whitespace().collect())
    }
}
