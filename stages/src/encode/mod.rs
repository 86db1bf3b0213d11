//! Stage: the answer, written into the frame the query came in.
//!
//! The client's question stays where it is, letter case and all. Behind it go the records, each TTL
//! counted down, and an OPT record if and only if the client sent one. The headers around it turn round.

mod headers;
mod options;
mod records;
mod stream;

use std::sync::Arc;

use pmdns_config::narrow::{to_u8, to_u16};
use pmdns_nics::stream::IdleTime;

use crate::answer::Answer;
use crate::cache::{Cache, Entry, Head, Words};
use crate::fixed::FixedAnswers;
use crate::packet::Packet;
use crate::policy::Ruleset;
use crate::ports::Ports;
use crate::ratelimit::Limiter;
use crate::step::{Reason, Step};
use crate::wire::checksum::Sum;
use crate::wire::dns::{HEADER_LEN, PLAIN_UDP_SIZE, Rcode, flag, question_len};
use crate::wire::edns::{ExtendedError, OPT_LEN};
use crate::wire::ip::{ETHERNET_LEN, PROTOCOL_UDP, swap_halves};
use crate::wire::layout::{Flags, Layout};
use crate::{Context, Stage, StageName};
use headers::{Offsets, put_ip, put_message, put_udp};
use options::{Buffer, Options};
use records::{Outline, open, put_records, restore_kept};

/// The last stage.
#[derive(Clone, Debug)]
pub struct Encode {
    cache: Arc<Cache>,
    rules: Arc<Ruleset>,
    fixed: Option<Arc<FixedAnswers>>,
    ports: Ports,
    max_udp_size: u16,
    /// Our name, for clients that ask for it (RFC 5001); empty: none.
    nsid: Box<[u8]>,
    /// How fast one client may provoke errors.
    errors: Limiter,
    /// How long an idle connection of a client lasts.
    idle_time: IdleTime,
}

impl Encode {
    /// An encode stage that answers from `cache` and `rules`, out of `ports`, in `max_udp_size` bytes of
    /// UDP payload at most.
    pub fn new(cache: Arc<Cache>, rules: Arc<Ruleset>, ports: Ports, max_udp_size: u16) -> Self {
        let errors = Limiter::off(cache.seed());
        let (nsid, idle_time) = (Box::default(), IdleTime::default());
        Self { cache, rules, fixed: None, ports, max_udp_size, nsid, errors, idle_time }
    }

    /// The same stage, which tells clients over streams how long an idle connection lasts.
    pub fn with_idle_time(self, idle_time: IdleTime) -> Self {
        Self { idle_time, ..self }
    }

    /// The same stage, with a limit on error replies.
    pub fn with_limit(self, errors: Limiter) -> Self {
        Self { errors, ..self }
    }

    /// The limiter of error replies.
    pub fn limiter(&mut self) -> &mut Limiter {
        &mut self.errors
    }

    /// The same stage, which has the fixed answers, and gives clients that ask for it the name `nsid`.
    pub fn with_fixed_answers(self, fixed: Arc<FixedAnswers>, nsid: Option<&str>) -> Self {
        let nsid = nsid.unwrap_or_default().as_bytes().into();
        Self { fixed: Some(fixed), nsid, ..self }
    }

    /// Answers from these rules from now on, and gives back those it had.
    pub fn swap_rules(&mut self, rules: &mut Arc<Ruleset>) {
        std::mem::swap(&mut self.rules, rules);
    }

    /// The rules it answers from.
    pub fn rules(&self) -> &Ruleset {
        &self.rules
    }

    /// Answers with an entry that need not be in the cache.
    pub fn answer_with(&self, packet: &mut Packet, entry: &Entry, context: &Context) -> Step {
        match self.rules.instead(packet, &entry.words()) {
            None => {}
            Some(Step::ANSWER) => return self.answer_other(packet, context),
            Some(step) => return step,
        }
        let offsets = Offsets::of(packet.layout);
        let mut buffer = Buffer::default();
        let options = buffer.options_of(packet, &self.nsid, &self.rules);
        match self.answer_from(packet, offsets, options, &entry.words(), context.seconds) {
            // It has no records even for a client over a stream, who cannot be sent elsewhere.
            Step::SLOW_PATH => self.answer_bare(packet, options, Rcode::SERVFAIL, 0),
            step => step,
        }
    }

    /// Answers a packet that lookup has not sent, from the cache or by rules.
    pub fn answer_found(&mut self, packet: &mut Packet, context: &Context) -> Step {
        let instead = match packet.answer {
            Answer::Cached(found) => self.rules.instead(packet, &self.cache.view(found)),
            _ => None,
        };
        instead.filter(|step| *step != Step::ANSWER).unwrap_or_else(|| self.act(packet, context))
    }

    /// Answers as the packet says.
    #[inline(never)]
    fn answer_other(&self, packet: &mut Packet, context: &Context) -> Step {
        let offsets = Offsets::of(packet.layout);
        let mut buffer = Buffer::default();
        let options = buffer.options_of(packet, &self.nsid, &self.rules);
        match packet.answer {
            Answer::Cached(found) => {
                let entry = self.cache.view(found);
                self.answer_from(packet, offsets, options, &entry, context.seconds)
            }
            Answer::Local(found) => match self.rules.entry(found) {
                Some(entry) => self.answer_from(packet, offsets, options, &entry.words(), 0),
                None => self.answer_anew(packet, context),
            },
            Answer::Fixed(which) => {
                match self.fixed.as_ref().and_then(|fixed| fixed.entry(which)) {
                    Some(entry) => self.answer_from(packet, offsets, options, &entry.words(), 0),
                    None => self.answer_bare(packet, options, Rcode::REFUSED, 0),
                }
            }
            Answer::Rcode(rcode) => match self.rules.denial(packet, rcode) {
                Some(entry) => self.answer_from(packet, offsets, options, &entry.words(), 0),
                None => self.answer_bare(packet, options, rcode, 0),
            },
            Answer::Truncated => self.answer_bare(packet, options, Rcode::NOERROR, flag::TC),
            Answer::None => {
                debug_assert!(false, "a stage sent a packet to encode without an answer");
                self.answer_bare(packet, options, Rcode::SERVFAIL, 0)
            }
        }
    }

    /// Whether this reply would be one error too many. What answers anything provokes nothing but errors, so a loop ends here
    /// that nothing else has stopped.
    #[cold]
    #[inline(never)]
    fn is_one_too_many(&mut self, packet: &Packet, rcode: Rcode, context: &Context) -> bool {
        let is_provoked = match rcode {
            Rcode::FORMERR | Rcode::NOTIMP | Rcode::BADVERS => true,
            // The operator's rules refuse names, which only real queries ask for.
            Rcode::REFUSED => !packet.extended_error.is_some_and(ExtendedError::is_of_rules),
            _ => false,
        };
        // A right cookie shows that the client is where it says.
        is_provoked
            && !packet.layout.flags.has(Flags::RIGHT_COOKIE)
            && self.errors.is_exceeded(packet, context.now)
    }

    /// Answers a packet that was judged by another ruleset than ours: the rules were changed while it was on its
    /// way. What ours say holds, and if that is nothing, the query becomes a miss.
    #[cold]
    fn answer_anew(&self, packet: &mut Packet, context: &Context) -> Step {
        packet.answer = Answer::None;
        match self.rules.judge(packet) {
            // An alias has to be followed, and then the rules are asked again.
            Some(step) if step != Step::ANSWER => step,
            None if !packet.refuse_unless_recursive() => Step::SLOW_PATH,
            _ => self.answer_other(packet, context),
        }
    }

    /// Answers from an entry's words, wherever they are, TTLs counted down to `seconds`.
    ///
    /// If what was read was not one entry, it has just been evicted: the query, which is still in the frame, becomes a miss.
    #[inline(always)]
    fn answer_from(
        &self,
        packet: &mut Packet,
        offsets: Offsets,
        options: Options<'_>,
        entry: &impl Words,
        seconds: u32,
    ) -> Step {
        let head = Head::read(entry);
        if !entry.is_valid() {
            return Step::SLOW_PATH;
        }
        let layout = packet.layout;
        if offsets.is_stream() && head.has_to_be_asked() {
            return Step::SLOW_PATH;
        }
        let room_beside = |options| match offsets.is_stream() {
            true => stream::room_for_records(packet, options),
            false => self.room_for_records(layout, options),
        };
        let options = match options.has_more_than_essential()
            && usize::from(head.body_len) > room_beside(options.all)
        {
            true => options.essential,
            false => options.all,
        };
        let outline = Outline::of(&head, packet, room_beside(options));
        let Some(body) = open(packet, layout, offsets, outline.body_len, options) else {
            return Step::drop(Reason::AnswerTooLong);
        };
        let elapsed = seconds.saturating_sub(head.learnt);
        let sum = put_records(body, outline.body_len, entry, &head, elapsed);
        if !entry.is_valid() {
            restore_kept(packet, options);
            return Step::SLOW_PATH;
        }
        self.close(packet, layout, offsets, &outline, options, sum)
    }

    /// Bytes that records may take in the answer to this query.
    #[inline]
    fn room_for_records(&self, layout: Layout, options: &[u8]) -> usize {
        let (size, opt) = if layout.flags.has(Flags::EDNS) {
            (layout.udp_size.clamp(PLAIN_UDP_SIZE, self.max_udp_size), OPT_LEN + options.len())
        } else {
            (PLAIN_UDP_SIZE, 0)
        };
        usize::from(size).saturating_sub(HEADER_LEN + question_len(layout.name_len) + opt)
    }

    /// Answers without records.
    #[inline(never)]
    fn answer_bare(
        &self,
        packet: &mut Packet,
        options: Options<'_>,
        rcode: Rcode,
        flags: u16,
    ) -> Step {
        let (layout, options) = (packet.layout, options.all);
        match Offsets::are_plain(layout) {
            true => self.answer_bare_at(packet, Offsets::PLAIN, options, rcode, flags),
            false => self.answer_bare_at(packet, Offsets::of(layout), options, rcode, flags),
        }
    }

    #[inline(always)]
    fn answer_bare_at(
        &self,
        packet: &mut Packet,
        offsets: Offsets,
        options: &[u8],
        rcode: Rcode,
        flags: u16,
    ) -> Step {
        let layout = packet.layout;
        match open(packet, layout, offsets, 0, options) {
            Some(_) => {
                // What is not implemented has no recursion either.
                let available = if rcode == Rcode::NOTIMP { 0 } else { flag::RA };
                let outline = Outline::bare(rcode, flags | available);
                self.close(packet, layout, offsets, &outline, options, Sum::default())
            }
            None => Step::drop(Reason::AnswerTooLong),
        }
    }

    /// Writes everything around the records, which are in place, and turns the packet round.
    ///
    /// The checksums are made of the values that are written, which are not read back. A load of bytes
    /// that have just been stored in smaller pieces waits for all of them.
    #[inline(always)]
    fn close(
        &self,
        packet: &mut Packet,
        layout: Layout,
        offsets: Offsets,
        outline: &Outline,
        options: &[u8],
        records: Sum,
    ) -> Step {
        if offsets.is_stream() {
            return self.close_stream(packet, layout, outline, options);
        }
        let question_sum = packet.question_sum;
        let Offsets { l3, l4, dns, ipv6 } = offsets;
        let offload = self.ports[usize::from(packet.frame.port())].checksum_offload;
        let frame = packet.frame.bytes_mut();
        if let Some(ethernet) = frame.first_chunk_mut::<ETHERNET_LEN>() {
            swap_halves::<12>(ethernet);
        }
        let (ip, datagram) = frame[l3..].split_at_mut(l4 - l3);
        let len = to_u16(datagram.len());
        let addresses = put_ip(ip, ipv6, len, offload);
        let pseudo = addresses.add16(u16::from(PROTOCOL_UDP)).add16(len);
        let (udp, message) = datagram.split_at_mut(dns - l4);
        let question = Sum::default().add16(question_sum);
        let body = question.add_at(question_len(layout.name_len), records);
        let message = put_message(message, layout, outline, self.max_udp_size, options, body);
        put_udp(udp, len, pseudo, (!offload).then_some(message));
        if offload {
            packet.frame.offload_checksums(to_u8(l3), to_u8(l4 - l3), ipv6);
        }
        Step::TRANSMIT
    }
}

impl Stage for Encode {
    const NAME: StageName = StageName::Encode;

    #[inline]
    fn act(&mut self, packet: &mut Packet, context: &Context) -> Step {
        if let Answer::Rcode(rcode) = packet.answer
            && self.is_one_too_many(packet, rcode, context)
        {
            return Step::drop(Reason::ErrorLimited);
        }
        // Nearly every answer is this one, in a function small enough for the registers there are.
        if let Answer::Cached(found) = packet.answer
            && Offsets::are_plain(packet.layout)
            && Options::are_none(packet)
        {
            let (entry, now) = (self.cache.view(found), context.seconds);
            return self.answer_from(packet, Offsets::PLAIN, Options::NONE, &entry, now);
        }
        self.answer_other(packet, context)
    }
}
