//! Commands on local records.

use clap::Subcommand;

use pmdns_control::answers::RecordPage;

use super::instance::Instance;
use super::request::{AskedFor, shown};
use super::{Line, Listed};

/// Commands on local records.
#[derive(Subcommand)]
pub enum LocalCommand {
    /// Add a record. The records of a name replace all that the file says of that name.
    Add {
        /// The owner of the record.
        name: String,
        /// Its type, as in a zone file.
        record_type: String,
        /// Its data, as in a zone file.
        data: String,
        /// Its time to live, in seconds.
        #[arg(long, default_value_t = 300)]
        ttl: u32,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Remove the records of a name.
    Remove {
        /// The owner of the records.
        name: String,
        /// Their type; without it all.
        record_type: Option<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Print the records, at most 1,000.
    List {
        /// Begin after this name.
        after: Option<String>,
        /// Where it is asked, and how it is printed.
        #[command(flatten)]
        listed: Listed,
    },
}

impl LocalCommand {
    /// The request, and what is printed of its answer.
    pub fn request(self) -> AskedFor {
        match self {
            Self::Add { name, record_type, data, ttl, instance } => {
                let line = Line::new("local add").word(name).word(record_type).word(ttl);
                AskedFor::done(line.rest(data), instance)
            }
            Self::Remove { name, record_type, instance } => {
                AskedFor::done(Line::new("local remove").word(name).maybe(record_type), instance)
            }
            Self::List { after, listed } => {
                AskedFor::list(Line::new("local list").maybe(after), listed, shown::<RecordPage>)
            }
        }
    }
}
