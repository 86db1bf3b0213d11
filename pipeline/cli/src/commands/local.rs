//! Commands on local records.

use clap::Subcommand;

use pmdns_control::{RecordChoice, RecordRequest, ask};

use super::instance::{Changing, Listing, first_page};
use crate::failure::Failure;

/// Commands on local records.
#[derive(Subcommand)]
pub(super) enum LocalCommand {
    /// Add a record. The records of a name replace all that the file says of that name.
    #[command(after_help = "Example: pmdns local add printer.lan A 192.0.2.7 --ttl 60")]
    Add {
        /// The owner of the record.
        name: String,
        /// The type of the record, as in a zone file.
        record_type: String,
        /// The data of the record, as in a zone file.
        data: String,
        /// The time to live of the record, in seconds.
        #[arg(long, default_value_t = 300)]
        ttl: u32,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Remove the records of a name.
    #[command(after_help = "Example: pmdns local remove printer.lan A")]
    Remove {
        /// The owner of the records.
        name: String,
        /// The type of the records; without one all of the name.
        record_type: Option<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Print the records, at most 1,000.
    #[command(after_help = "Example: pmdns local list printer.lan")]
    List {
        /// Begin after this name.
        after: Option<String>,
        /// Where it is asked, and how it is printed.
        #[command(flatten)]
        listed: Listing,
    },
}

impl LocalCommand {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Add { name, record_type, data, ttl, instance } => {
                let record = RecordRequest { name, r#type: record_type, ttl, data };
                instance.has_done(ask::AddRecords(vec![record]))
            }
            Self::Remove { name, record_type, instance } => {
                let choice = RecordChoice { name, r#type: record_type };
                instance.has_done(ask::RemoveRecords(choice))
            }
            Self::List { after, listed } => listed.show(ask::Records(first_page(after))),
        }
    }
}
