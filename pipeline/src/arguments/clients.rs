//! Commands on the client table.

use clap::Subcommand;

use super::instance::Instance;

/// Commands on the client table.
#[derive(Subcommand)]
pub enum ClientCommand {
    /// Put the clients of a prefix into a view. The longest prefix decides.
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
    Remove {
        /// The prefix, or an address.
        prefix: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Print which view a client is in, and which prefix decides.
    Show {
        /// The client's address.
        address: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Print the prefixes of the table, as JSON, at most 1,000.
    List {
        /// Begin after this prefix.
        after: Option<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
}

impl ClientCommand {
    /// The request, the instance that it goes to, and whether JSON is the answer.
    pub fn request(self) -> (String, Instance, bool) {
        match self {
            Self::Set { prefix, view, instance } => {
                (format!("client set {prefix} {view}"), instance, false)
            }
            Self::Remove { prefix, instance } => {
                (format!("client remove {prefix}"), instance, false)
            }
            Self::Show { address, instance } => (format!("client show {address}"), instance, true),
            Self::List { after, instance } => {
                (format!("client list {}", after.unwrap_or_default()), instance, true)
            }
        }
    }
}
