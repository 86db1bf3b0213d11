//! Commands on views, and on the client table.

use clap::{Args, Subcommand};

use pmdns_control::{ClientChange, ask};

use super::instance::{Changing, Listing, first_page};
use crate::failure::Failure;

/// Commands on the client table.
#[derive(Subcommand)]
pub(super) enum ClientCommand {
    /// Put the clients of a prefix into a view. The longest prefix decides.
    #[command(after_help = "Example: pmdns client set 2001:db8:9::/56 kids")]
    Set {
        /// The prefix, or an address.
        prefix: String,
        /// The name of the view; `default`: that of clients in no other.
        view: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Take a prefix out of the table.
    #[command(after_help = "Example: pmdns client remove 192.0.2.9")]
    Remove {
        /// The prefix, or an address.
        prefix: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Print which view a client is in, and which prefix decides.
    #[command(after_help = "Example: pmdns client show 192.0.2.9")]
    Show {
        /// The client's address.
        address: String,
        /// Where it is asked, and how it is printed.
        #[command(flatten)]
        listed: Listing,
    },
    /// Print the prefixes of the table, at most 1,000.
    #[command(after_help = "Example: pmdns client list 192.0.2.9/32")]
    List {
        /// Begin after this prefix.
        after: Option<String>,
        /// Where it is asked, and how it is printed.
        #[command(flatten)]
        listed: Listing,
    },
}

impl ClientCommand {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Set { prefix, view, instance } => {
                let change = ClientChange { prefix, view: Some(view) };
                instance.has_done(ask::ChangeClients(vec![change]))
            }
            Self::Remove { prefix, instance } => instance.has_done(ask::RemoveClient(prefix)),
            Self::Show { address, listed } => listed.show(ask::FindClient(address)),
            Self::List { after, listed } => listed.show(ask::Clients(first_page(after))),
        }
    }
}

#[derive(Args)]
pub(super) struct Views {
    /// Where it is asked, and how it is printed.
    #[command(flatten)]
    listed: Listing,
}

impl Views {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.listed.show(ask::Views)
    }
}
