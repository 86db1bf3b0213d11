//! Commands on the client table.

use clap::Subcommand;

use pmdns_control::answers::{ClientAnswer, ClientPage};
use pmdns_control::{Call, ClientChange};

use super::Listing;
use super::request::{AskedFor, Changing, first_page};

/// Commands on the client table.
#[derive(Subcommand)]
pub enum ClientCommand {
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
    /// What it asks.
    pub(super) fn asked(self) -> AskedFor {
        match self {
            Self::Set { prefix, view, instance } => {
                let change = ClientChange { prefix, view: Some(view) };
                AskedFor::change(Call::ChangeClients(vec![change]), instance)
            }
            Self::Remove { prefix, instance } => {
                AskedFor::change(Call::RemoveClient(prefix), instance)
            }
            Self::Show { address, listed } => {
                AskedFor::list::<ClientAnswer>(Call::FindClient(address), listed)
            }
            Self::List { after, listed } => {
                AskedFor::list::<ClientPage>(Call::Clients(first_page(after)), listed)
            }
        }
    }
}
