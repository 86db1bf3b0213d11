//! Commands on block lists.

use std::net::IpAddr;

use clap::Subcommand;

use super::instance::Instance;

/// Commands on block lists. Their effect holds until the instance stops, over reloads as well.
#[derive(Subcommand)]
pub enum ListCommand {
    /// Print those in use, as JSON.
    Show {
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Fetch one more by HTTPS, and block its names. The file names the folder for it: `control.lists`.
    Add {
        /// Its name: letters, digits, `-` and `_`.
        name: String,
        /// Where it is, as in `https://lists.example/ads.txt`.
        #[arg(long)]
        url: String,
        /// The address of the server; without it the system's resolver is asked.
        #[arg(long, value_name = "IP")]
        address: Option<IpAddr>,
        /// How often it is fetched; without it once a day.
        #[arg(long, value_name = "SECONDS")]
        refresh_seconds: Option<u64>,
        /// A view in which it holds, once for each; without it all.
        #[arg(long = "view", value_name = "VIEW")]
        views: Vec<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Remove one that was added so, with its file.
    Remove {
        /// Its name.
        name: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
}

impl ListCommand {
    /// The request, the instance that it goes to, and whether JSON is the answer.
    pub fn request(self) -> (String, Instance, bool) {
        match self {
            Self::Show { instance } => ("lists".to_owned(), instance, true),
            Self::Add { name, url, address, refresh_seconds, views, instance } => {
                let mut request = format!("list add {name} {url}");
                request += &address.map(|ip| format!(" address {ip}")).unwrap_or_default();
                request += &refresh_seconds.map(|s| format!(" refresh {s}")).unwrap_or_default();
                request += &view_words(&views);
                (request, instance, false)
            }
            Self::Remove { name, instance } => (format!("list remove {name}"), instance, false),
        }
    }
}

/// Views as words of a request.
pub fn view_words(views: &[String]) -> String {
    views.iter().map(|view| format!(" view {view}")).collect()
}
