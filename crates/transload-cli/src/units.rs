//! Sizes and durations as people write them: `64KiB`, `2MB`, `250us`, `1.5s`.

use std::time::Duration;

use parse_size::{Config, Error};

/// A number of bytes, at least 1, that an address can count.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let read = Config::new().with_binary().parse_size(text);
    let bytes = read.map_err(|error| match error {
        Error::PosOverflow => format!("more than the {} bytes that can be counted", usize::MAX),
        _ => "not a size; write it like 256, 64KiB or 2MiB".to_owned(),
    })?;
    match usize::try_from(bytes) {
        Ok(0) => Err("at least 1 byte is needed".to_owned()),
        Ok(bytes) if isize::try_from(bytes).is_ok() => Ok(bytes),
        _ => Err(format!("more than the {} bytes that memory can have", isize::MAX)),
    }
}

/// How long something takes: zero is allowed.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "not a duration; write it like 50us, 200ms or 5s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in
            [("1", 1), ("256", 256), ("64KiB", 65536), ("64 kib", 65536), ("2MiB", 2 << 20)]
        {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in
            ["", "0", "-1", "1.5.2", "x", "17EiB", "16EiB", "8EiB", "99999999999999999999", "1KiBs", "NaN"]
        {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        for text in ["", "5", "-1s", "1x", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
