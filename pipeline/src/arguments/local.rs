//! Commands on local records.

use clap::Subcommand;

use super::instance::Instance;

/// Commands on local records.
#[derive(Subcommand)]
pub enum LocalCommand {
    /// Add a record. The records of a name replace all that the file says of that name.
    Add {
        /// Its owner.
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
        /// Their owner.
        name: String,
        /// Their type; without it all.
        record_type: Option<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Print the records, as JSON.
    List {
        /// Begin after this name.
        after: Option<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
}

impl LocalCommand {
    /// The request, the instance that it goes to, and whether JSON is the answer.
    pub fn request(self) -> (String, Instance, bool) {
        match self {
            Self::Add { name, record_type, data, ttl, instance } => {
                (format!("local add {name} {record_type} {ttl} {data}"), instance, false)
            }
            Self::Remove { name, record_type, instance } => {
                let record_type = record_type.unwrap_or_default();
                (format!("local remove {name} {record_type}"), instance, false)
            }
            Self::List { after, instance } => {
                (format!("local list {}", after.unwrap_or_default()), instance, true)
            }
        }
    }
}
