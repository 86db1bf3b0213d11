//! The known capabilities of an upstream: EDNS, DNS cookies, and replies in the letter case of the query. A missing one
//! is remembered for a while, so that not every question has to discover it. Then it is tried again.
//!
//! Pure; time is an argument, counted from the start of the process. docs/adr/0026-what-is-believed-of-replies.md says
//! how each is used.

use std::time::Duration;

use crate::upstreams::cookies::CookieJar;
use crate::upstreams::fallback::Fallback;

/// After so many questions in a row that an upstream answered only without an OPT record, it is asked without one at
/// once.
const ANSWERS_BEFORE_PLAIN: u32 = 3;
/// How long it is asked without one.
const EDNS_PAUSE: Duration = Duration::from_secs(900);
/// After so many replies in a row with another letter case, an upstream is asked in lower case.
const MISSPELT_BEFORE_PLAIN: u32 = 3;
/// How long it is asked in lower case.
const CASE_PAUSE: Duration = Duration::from_secs(3600);

/// The capabilities of one upstream.
#[derive(Clone, Debug)]
pub(crate) struct Capabilities {
    pub(crate) in_lower_case: Fallback,
    pub(crate) without_edns: Fallback,
    pub(crate) cookies: CookieJar,
}

impl Default for Capabilities {
    /// Nothing is known yet.
    fn default() -> Self {
        Self {
            in_lower_case: Fallback::new(MISSPELT_BEFORE_PLAIN, CASE_PAUSE),
            without_edns: Fallback::new(ANSWERS_BEFORE_PLAIN, EDNS_PAUSE),
            cookies: CookieJar::default(),
        }
    }
}
