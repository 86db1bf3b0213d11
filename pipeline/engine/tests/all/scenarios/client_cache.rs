//! The scenarios of a cache inside a client: how they are to be read.
//!
//! That cache passes on what one server says, flags included, and keeps what a client may keep. pmdns answers as a resolver does.

use pmdns_hierarchy::message::flag;
use pmdns_hierarchy::{Message, rtype};

use super::translation::{Setting, configuration};

/// What they are played with: one server, whose AD is believed.
pub(crate) fn setting() -> Setting {
    let toml = configuration(
        "[cache]\nsize = \"1MiB\"\npages = \"normal\"\nserve_stale = false\nmax_negative_ttl = 3600\n\
         max_ttl = 604800\n\
         [[upstream]]\naddress = \"193.0.14.129:53\"\ntrust_ad = true\n",
    );
    Setting { toml, is_client_cache: true, ..Setting::default() }
}

/// What a resolver says in place of a client's cache: recursion is available.
pub(crate) fn expected(mut message: Message) -> Message {
    message.flags |= flag::RA;
    message
}

/// An answer as far as the scenarios look at it: they leave OPT records out.
pub(crate) fn compared(mut message: Message) -> Message {
    message.sections[2].retain(|one| one.rtype != rtype::OPT);
    message
}
