//! Commands on the client table.

use clap::Subcommand;

use pmdns_control::answers::{ClientAnswer, ClientPage};

use super::instance::Instance;
use super::request::{AskedFor, shown};
use super::{Line, Listed};

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
        instance: Instance,
    },
    /// Take a prefix out of the table.
    #[command(after_help = "Example: pmdns client remove 192.0.2.9")]
    Remove {
        /// The prefix, or an address.
        prefix: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Print which view a client is in, and which prefix decides.
    #[command(after_help = "Example: pmdns client show 192.0.2.9")]
    Show {
        /// The client's address.
        address: String,
        /// Where it is asked, and how it is printed.
        #[command(flatten)]
        listed: Listed,
    },
    /// Print the prefixes of the table, at most 1,000.
    #[command(after_help = "Example: pmdns client list 192.0.2.9/32")]
    List {
        /// Begin after this prefix.
        after: Option<String>,
        /// Where it is asked, and how it is printed.
        #[command(flatten)]
        listed: Listed,
    },
}

impl ClientCommand {
    /// The request, and what is printed of its answer.
    pub fn request(self) -> AskedFor {
        match self {
            Self::Set { prefix, view, instance } => {
                AskedFor::done(Line::new("client set").word(prefix).word(view), instance)
            }
            Self::Remove { prefix, instance } => {
                AskedFor::done(Line::new("client remove").word(prefix), instance)
            }
            Self::Show { address, listed } => AskedFor::list(
                Line::new("client show").word(address),
                listed,
                shown::<ClientAnswer>,
            ),
            Self::List { after, listed } => {
                AskedFor::list(Line::new("client list").maybe(after), listed, shown::<ClientPage>)
            }
        }
    }
}
