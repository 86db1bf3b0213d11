//! Who may connect over streams. A reload asks it without the ports that streams need, so it is below both.

use std::sync::Arc;

use pmdns_config::Config;
use pmdns_stages::acl::Allowed;
use pmdns_streams::access::MayAsk;

/// Who may connect by the access lists of `config`.
pub fn may_ask(config: &Config) -> Arc<MayAsk> {
    let allowed = Allowed::new(config);
    Arc::new(move |client| allowed.has(client))
}
