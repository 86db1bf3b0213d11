//! Numbers as people read them.

/// Microseconds in the unit that suits them.
pub(crate) fn time(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.1} us"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

/// A number with three or four digits and the prefix that suits it.
pub(crate) fn amount(value: f64) -> String {
    // The sum of no numbers is -0.0.
    match value + 0.0 {
        value if value < 9.95 && value > 0.0 => format!("{value:.1}"),
        value if value < 9999.5 => format!("{value:.0}"),
        value if value < 9_999_500.0 => format!("{:.1} k", value / 1e3),
        value if value < 9_999_500_000.0 => format!("{:.1} M", value / 1e6),
        value => format!("{:.1} G", value / 1e9),
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(super) fn per_second(rate: f64) -> String {
    format!("{}/s", amount(rate))
}

/// How much the busiest of several got beside the mean.
pub(crate) fn uneven(imbalance: Option<f64>) -> String {
    imbalance.map_or_else(|| "-".to_owned(), |times| format!("{times:.1} x"))
}

pub(super) fn bits(rate: f64) -> String {
    format!("{}b/s", amount(rate))
}

pub(super) fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match days {
        0 => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
        _ => format!("{days} d {hours}:{minutes:02}:{:02}", seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.5, 42.4, 9999.0, 10_000.0, 9.9e6, 1.2e7, 3e10].map(amount);
        assert_eq!(texts, ["0", "0.5", "42", "9999", "10.0 k", "9900.0 k", "12.0 M", "30.0 G"]);
        assert_eq!(amount([0.0; 0].iter().sum()), "0");
        assert_eq!([12.34, 1234.0, 3.5e6].map(time), ["12.3 us", "1.2 ms", "3.5 s"]);
        assert_eq!(uptime(90_061), "1 d 1:01:01");
    }
}
