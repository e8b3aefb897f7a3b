//! Times: RFC 3339 UTC for machines, local and relative for people, and what `--since` takes.
//!
//! # Units
//! `_ms`: Unix milliseconds, signed.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, ZonedDateTime};

use crate::exit::Failure;

/// RFC 3339 in UTC with milliseconds; nothing for a time outside the calendar.
pub(crate) fn rfc3339(ms: i64) -> Option<String> {
    let at = Timestamp::from_millisecond(ms).ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

/// Local time for people: how long ago, or the date when it is long ago or in the future.
pub(crate) fn relative(ms: i64, now_ms: i64) -> String {
    let ago = now_ms.saturating_sub(ms) / 1000;
    match ago {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", ago / 60),
        3_600..86_400 => format!("{} h ago", ago / 3_600),
        86_400..604_800 => format!("{} d ago", ago / 86_400),
        _ => Timestamp::from_millisecond(ms).map_or_else(
            |_| format!("{ms} ms"),
            |at| at.to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string(),
        ),
    }
}

/// Local time for people, to the second.
pub(crate) fn local(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(
        |_| format!("{ms} ms"),
        |at| at.to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

/// RFC 3339 in UTC, or Unix milliseconds where the calendar ends.
pub(crate) fn machine(ms: i64) -> String {
    rfc3339(ms).unwrap_or_else(|| ms.to_string())
}

/// What a flag that takes a time says.
pub(crate) fn flag(name: &str, text: Option<&str>) -> Result<Option<i64>, Failure> {
    let bad = |why: String, text: &str| Failure::usage(format!("{name} {text}: {why}"));
    text.map(|t| parse(t).map_err(|why| bad(why, t))).transpose()
}

/// The clock, in Unix milliseconds.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Reads what `--since` and `--until` take: RFC 3339, a date, a length of time ago, `today`, `yesterday` or `now`.
pub(crate) fn parse(text: &str) -> Result<i64, String> {
    parse_at(text, &ZonedDateTime::now())
}

fn parse_at(text: &str, now: &ZonedDateTime) -> Result<i64, String> {
    let bad = |e: jiff::Error| e.to_string();
    match text {
        "now" => return Ok(now.timestamp().as_millisecond()),
        "today" => return midnight(now.date(), now),
        "yesterday" => return midnight(now.date().checked_sub(1.day()).map_err(bad)?, now),
        _ => {}
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at.as_millisecond());
    }
    if text.len() >= 8
        && let Ok(date) = text.parse::<Date>()
    {
        return midnight(date, now);
    }
    if let Ok(span) = text.parse::<Span>() {
        let at = now.checked_sub(span.abs()).map_err(bad)?;
        return Ok(at.timestamp().as_millisecond());
    }
    Err("a time is RFC 3339 (2026-11-30T12:00:00Z), a date (2026-11-30), a length of time ago (2h, 30d), \
         today, yesterday or now"
        .to_owned())
}

fn midnight(date: Date, now: &ZonedDateTime) -> Result<i64, String> {
    let at = date.to_zoned_datetime(now.time_zone().clone()).map_err(|e| e.to_string())?;
    Ok(at.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn machines_get_utc_with_milliseconds() {
        assert_eq!(rfc3339(0).unwrap(), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_700_000_000_123).unwrap(), "2023-11-14T22:13:20.123Z");
        assert_eq!(rfc3339(-1).unwrap(), "1969-12-31T23:59:59.999Z");
        assert_eq!(rfc3339(i64::MAX), None);
    }

    #[test]
    fn since_takes_every_form_of_the_contract() {
        let now: ZonedDateTime = "2026-11-30T12:00:00[UTC]".parse().unwrap();
        let ms = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond();
        let cases = [
            ("2026-11-30T10:00:00Z", "2026-11-30T10:00:00Z"),
            ("2026-11-30T12:00:00+02:00", "2026-11-30T10:00:00Z"),
            ("2026-11-29", "2026-11-29T00:00:00Z"),
            ("20261129", "2026-11-29T00:00:00Z"),
            ("2h", "2026-11-30T10:00:00Z"),
            ("30d", "2026-10-31T12:00:00Z"),
            ("1h30m", "2026-11-30T10:30:00Z"),
            ("today", "2026-11-30T00:00:00Z"),
            ("yesterday", "2026-11-29T00:00:00Z"),
            ("now", "2026-11-30T12:00:00Z"),
        ];
        for (text, want) in cases {
            assert_eq!(parse_at(text, &now), Ok(ms(want)), "{text}");
        }
        for text in ["", "soon", "2026-13-01", "12"] {
            assert!(parse_at(text, &now).is_err(), "{text}");
        }
    }

    #[test]
    fn people_read_how_long_ago() {
        assert_eq!(relative(0, 59_000), "just now");
        assert_eq!(relative(0, 120_000), "2 min ago");
        assert_eq!(relative(0, 7_200_000), "2 h ago");
        assert!(!relative(i64::MIN, 0).is_empty());
    }
}
