//! Records of a zone file: owner, TTL, class and type of each entry, and what it has from those before.

use std::collections::BTreeMap;

use super::Problem;
use super::data::read_data;
use super::directive::Directive;
use super::generate::Generate;
use super::head::{RecordHead, ZoneRecord, of_type};
use super::text::put_name;
use super::types::{SetType, set_type};
use super::words::{Mistake, ZoneFileEntries, ZoneFileEntry};
use crate::limits::MAX_TTL;

/// The TTL of a record before any is known.
const DEFAULT_TTL: u32 = 3600;

/// The type of the record that a zone begins with.
const SOA: u16 = 6;

/// MD and MF: RFC 973 section 2 has MX in their place, and lets zone files that have them be refused.
const OBSOLETE: [u16; 2] = [3, 4];

/// The text of a zone, read record by record.
pub(crate) struct Zone<'t> {
    entries: ZoneFileEntries<'t>,
    context: Context,
    /// The records that a `$GENERATE` still has to make, and the line of its end.
    making: Option<(Generate, u64)>,
}

/// What a record has from entries before it.
struct Context {
    origin: Vec<u8>,
    /// The owner in lower case.
    owner: Option<Vec<u8>>,
    /// The owner as it is written. Another spelling is another owner in what follows, as for BIND.
    written: Vec<u8>,
    /// The TTL of each set of records of this owner. Its first record decides for those right behind it.
    set_ttls: BTreeMap<SetType, u32>,
    /// That of `$TTL`, or of an SOA record without one.
    default_ttl: Option<u32>,
    /// That of the last record, if one was ever written (RFC 1035 section 5.1).
    last_ttl: Option<u32>,
}

impl<'t> Zone<'t> {
    /// The zone that a text has; names without a dot at their end are below `origin`, in wire format.
    pub(crate) fn new(text: &'t [u8], origin: Vec<u8>) -> Self {
        let context = Context {
            origin,
            owner: None,
            written: Vec::new(),
            set_ttls: BTreeMap::new(),
            default_ttl: None,
            last_ttl: None,
        };
        Self { entries: ZoneFileEntries::new(text), context, making: None }
    }

    /// The next record, and the line that its entry ends at.
    pub(crate) fn next(&mut self) -> Result<Option<(ZoneRecord, u64)>, Mistake> {
        loop {
            if let Some((generate, line)) = &mut self.making {
                let line = *line;
                match generate.next(&self.context.origin).map_err(|problem| (line, problem))? {
                    Some(record) => return Ok(Some((record, line))),
                    None => self.making = None,
                }
            }
            let Some(entry) = self.entries.next()? else { return Ok(None) };
            let line = entry.line;
            match Directive::of(&entry)? {
                None => return Ok(Some((self.context.record(&entry)?, line))),
                Some(Directive::Origin(name)) => {
                    let mut origin = Vec::new();
                    put_name(&mut origin, name, Some(&self.context.origin))
                        .map_err(|problem| (name.line, problem))?;
                    self.context.origin = origin;
                }
                Some(Directive::Ttl(ttl)) => self.context.default_ttl = Some(ttl),
                Some(Directive::Generate(words)) => {
                    let context = &mut self.context;
                    let head = RecordHead::of(words.record).map_err(|problem| (line, problem))?;
                    let ttl = context.ttl(head.ttl);
                    let generate = Generate::new(&words, &head, ttl);
                    self.making = Some((generate.map_err(|problem| (line, problem))?, line));
                }
            }
        }
    }
}

impl Context {
    /// The record of an entry.
    fn record(&mut self, entry: &ZoneFileEntry<'_, '_>) -> Result<ZoneRecord, Mistake> {
        let first = entry.words.first().map_or(entry.line, |word| word.line);
        let at_start = |problem: Problem| (first, problem);
        let words = match entry.words.split_first() {
            Some((owner, words)) if !entry.starts_blank => {
                let mut name = Vec::new();
                put_name(&mut name, owner, Some(&self.origin)).map_err(at_start)?;
                if self.written != name {
                    // Length octets are at most 63 and thus no letters.
                    self.owner = Some(name.to_ascii_lowercase());
                    self.written = name;
                    self.set_ttls.clear();
                }
                words
            }
            _ => entry.words,
        };
        let Some(owner) = self.owner.clone() else {
            let problem = "the line begins with a blank, so its owner is that of the record before, \
                           and there is none; write the owner";
            return Err(at_start(problem.to_owned()));
        };
        let head = RecordHead::of(words).map_err(at_start)?;
        if OBSOLETE.contains(&head.rtype) {
            let problem = "the types MD and MF are obsolete (RFC 973); write an MX record";
            return Err(at_start(problem.to_owned()));
        }
        let data = read_data(head.rtype, head.data, Some(&self.origin))
            .map_err(|(line, problem)| (line.unwrap_or(first), of_type(head.rtype, &problem)))?;
        if head.rtype == SOA && head.ttl.or(self.default_ttl).or(self.last_ttl).is_none() {
            // RFC 1035 knows no $TTL; the minimum of the SOA record was the default.
            let minimum = data.last_chunk().map(|minimum| u32::from_be_bytes(*minimum));
            self.default_ttl = minimum.filter(|minimum| *minimum <= MAX_TTL);
        }
        let ttl = self.set_ttl(set_type(head.rtype, &data), head.ttl);
        Ok(ZoneRecord { name: owner, rtype: head.rtype, ttl, data })
    }

    /// The TTL of a record that begins a set, and has this one written.
    fn ttl(&mut self, written: Option<u32>) -> u32 {
        self.last_ttl = written.or(self.last_ttl);
        written.or(self.default_ttl).or(self.last_ttl).unwrap_or(DEFAULT_TTL)
    }

    /// The TTL of a record of this set. It is carried on as the last one.
    fn set_ttl(&mut self, set: SetType, written: Option<u32>) -> u32 {
        let ttl = self.ttl(written);
        let ttl = *self.set_ttls.entry(set).or_insert(ttl);
        self.last_ttl = self.last_ttl.map(|_| ttl);
        ttl
    }
}
