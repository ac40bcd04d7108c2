//! Numbers as people read them. NICs in bits, NVLink and PCIe in bytes, all decimal; memory in GiB.

/// `12.4` GiB
pub fn gib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 30))
}

/// Bytes a second as bits: `0`, `831k`, `61.2M`, `98.4G`.
pub fn bits_per_s(bytes_per_s: f64) -> String {
    scaled(bytes_per_s * 8.0)
}

/// `100G`, `25G`, `1G`
pub fn line_rate(bits_per_s: u64) -> String {
    scaled(bits_per_s as f64).replace(".0", "")
}

/// `59.1` GB/s
pub fn gbytes_per_s(bytes_per_s: f64) -> String {
    format!("{:.1}", bytes_per_s / 1e9)
}

/// A number with three significant digits and a decimal prefix: `2.73M`.
pub fn scaled(value: f64) -> String {
    let (value, prefix) = match value.abs() {
        v if v >= 1e12 => (value / 1e12, "T"),
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    match value.abs() {
        v if v < 0.05 => "0".into(),
        v if v >= 100.0 || (prefix.is_empty() && v.fract() == 0.0) => format!("{value:.0}{prefix}"),
        _ => format!("{value:.1}{prefix}"),
    }
}

/// `11.9 ms`, `1.31 s`, `2 m 05 s`
pub fn seconds(s: f64) -> String {
    match s {
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.2} s"),
        s => crate::time::span(std::time::Duration::try_from_secs_f64(s).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough() {
        assert_eq!([0.0, 0.04, 7.0, 831.4, 2_729_113.0, 98.4e9].map(scaled), ["0", "0", "7", "831", "2.7M", "98.4G"]);
        assert_eq!([100e9 as u64, 25e9 as u64, 2_500_000_000].map(line_rate), ["100G", "25G", "2.5G"]);
        assert_eq!([0.0119, 1.31, 125.0].map(seconds), ["11.9 ms", "1.31 s", "2 m 05 s"]);
    }
}
