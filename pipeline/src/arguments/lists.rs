//! Commands on block lists.

use std::net::IpAddr;

use clap::Subcommand;

use pmdns_control::answers::BlockLists;
use pmdns_control::{Call, NewList};

use super::Listing;
use super::request::{AskedFor, Changing};

/// Commands on block lists. Their effect holds over reloads and restarts.
#[derive(Subcommand)]
pub enum ListCommand {
    /// Print the lists in use.
    #[command(visible_alias = "list")]
    #[command(after_help = "Example: pmdns list show")]
    Show {
        /// Where it is asked, and how it is printed.
        #[command(flatten)]
        listed: Listing,
    },
    /// Fetch one more list by HTTPS, and block its names. The file names the folder for it: `control.lists`.
    #[command(
        after_help = "Example: pmdns list add ads --url https://lists.example/ads.txt --view kids"
    )]
    Add {
        /// The name of the list: letters, digits, `-` and `_`.
        name: String,
        /// The URL of the list, as in `https://lists.example/ads.txt`.
        #[arg(long)]
        url: String,
        /// The address of the server; without it the system's resolver is asked.
        #[arg(long, value_name = "IP")]
        address: Option<IpAddr>,
        /// How often the list is fetched; without this once a day.
        #[arg(long, value_name = "SECONDS")]
        refresh_seconds: Option<u64>,
        /// A view in which the list holds; may be given again. Without one the list holds in all views.
        #[arg(long = "view", value_name = "VIEW")]
        views: Vec<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Remove a list that `list add` has added, with its file.
    #[command(after_help = "Example: pmdns list remove ads")]
    Remove {
        /// The name of the list.
        name: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
}

impl ListCommand {
    /// What it asks.
    pub(super) fn asked(self) -> AskedFor {
        match self {
            Self::Show { listed } => AskedFor::list::<BlockLists>(Call::Lists, listed),
            Self::Add { name, url, address, refresh_seconds, views, instance } => {
                let new = NewList { name, url, address, refresh_seconds, views };
                AskedFor::change(Call::AddList(new), instance)
            }
            Self::Remove { name, instance } => AskedFor::change(Call::RemoveList(name), instance),
        }
    }
}
