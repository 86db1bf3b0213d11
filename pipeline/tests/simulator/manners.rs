//! How servers, and those who pretend to be one, behave for a while.

use std::time::Duration;

use pmdns_hierarchy::Rng;

/// What is the matter with a server's replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// No reply at all.
    Dead,
    /// The machine says that nobody listens.
    Unreachable,
    /// An error with this rcode.
    Rcode(u16),
    /// An error with this rcode and no question in it.
    Bare(u16),
    /// A referral of a server that does not recurse: others are to be asked.
    Lame,
    /// TC, and nothing else.
    Truncated,
    /// Not a message.
    Garbage,
    /// A record is changed, or left out. Only of signed zones can anybody tell.
    False,
    /// The question in small letters.
    SmallLetters,
    /// Another id, and a lie.
    OtherId,
    /// Another question, and a lie about it.
    OtherQuestion,
    /// From another address, a lie.
    OtherAddress,
}

/// What is the matter with its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Good,
    /// Nobody listens.
    Refused,
    /// It takes bytes and says nothing.
    Silent,
    /// A few bytes at a time.
    Slow,
    /// It ends after this many replies.
    Ends(u8),
    /// It ends in the middle of a reply.
    Cut,
}

/// How a server behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    /// The shortest and the longest it takes.
    pub(crate) delay: (Duration, Duration),
    /// One datagram in so many is lost; 0: none.
    pub(crate) loss: usize,
    /// One in so many comes twice; 0: none.
    pub(crate) twice: usize,
    /// The trouble, and how often: one reply in so many.
    pub(crate) trouble: (Trouble, usize),
    pub(crate) stream: Stream,
    /// Forged replies that come before the server's own to one query in so many; 0: nobody forges.
    pub(crate) forgers: usize,
    /// Whether it knows EDNS.
    pub(crate) edns: bool,
    /// Whether it shows cookies.
    pub(crate) cookies: bool,
}

impl Manners {
    /// As a server should.
    pub(crate) fn good() -> Self {
        Self {
            delay: (Duration::from_millis(2), Duration::from_millis(30)),
            loss: 0,
            twice: 0,
            trouble: (Trouble::None, 1),
            stream: Stream::Good,
            forgers: 0,
            edns: true,
            cookies: true,
        }
    }

    /// Some bad manners.
    pub(crate) fn bad(chance: &mut Rng) -> Self {
        let longest = [30, 30, 200, 900, 2500][chance.below(5)];
        let trouble = match chance.below(17) {
            0 => Trouble::Dead,
            1 => Trouble::Unreachable,
            2 => Trouble::Rcode(1),
            3 => Trouble::Rcode(2),
            4 => Trouble::Rcode(5),
            5 => Trouble::Bare(1),
            6 => Trouble::Lame,
            7 => Trouble::Truncated,
            8 => Trouble::Garbage,
            9 => Trouble::SmallLetters,
            10 => Trouble::OtherId,
            11 => Trouble::OtherQuestion,
            12 => Trouble::OtherAddress,
            13 => Trouble::False,
            _ => Trouble::None,
        };
        let often = [1, 1, 2, 5][chance.below(4)];
        let stream = match chance.below(9) {
            0 => Stream::Refused,
            1 => Stream::Silent,
            2 => Stream::Slow,
            3 => Stream::Ends(chance.below(4) as u8),
            4 => Stream::Cut,
            _ => Stream::Good,
        };
        Self {
            delay: (Duration::from_millis(1), Duration::from_millis(longest)),
            loss: [0, 0, 2, 5, 20][chance.below(5)],
            twice: [0, 0, 3, 10][chance.below(4)],
            trouble: (trouble, often),
            stream,
            forgers: [0, 0, 0, 1, 4][chance.below(5)],
            edns: chance.below(8) > 0,
            cookies: chance.below(2) > 0,
        }
    }

    /// How long a reply takes.
    pub(crate) fn time(&self, chance: &mut Rng) -> Duration {
        let (shortest, longest) = self.delay;
        let range = (longest - shortest).as_micros() as usize;
        shortest + Duration::from_micros(chance.below(range.max(1)) as u64)
    }
}

/// Whether what happens once in `count` times happens now; 0: never.
pub(crate) fn happens(chance: &mut Rng, count: usize) -> bool {
    count > 0 && chance.one_in(count)
}
