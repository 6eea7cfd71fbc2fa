//! The document of `transload pump --json`: its fields, their types, and what always holds between them.

use serde_json::{Map, Value};

/// What a field may hold.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Count,
    Rate,
    Text,
    Truth,
    OrNull(&'static Kind),
    Object(&'static [(&'static str, Kind)]),
}

use Kind::{Count, Object, OrNull, Rate, Text, Truth};

/// All fields, in the order in which they are written.
const DOCUMENT: Kind = Object(&[
    ("schema", Count),
    ("accepted", Count),
    ("delivered", Count),
    ("dropped", Count),
    ("rejected", Count),
    ("skipped", Count),
    ("bytes", Count),
    ("staged_bytes", Count),
    ("seconds", Rate),
    ("messages_per_second", Rate),
    ("bytes_per_second", Rate),
    (
        "latency_ns",
        Object(&[("samples", Count), ("p50", Count), ("p99", Count), ("p999", Count), ("max", Count)]),
    ),
    ("batch_messages", Object(&[("p50", Count), ("max", Count)])),
    ("mapped_batches", Count),
    ("device", OrNull(&Object(&[("backend", Text), ("name", Text), ("registration", Text)]))),
    (
        "memory",
        OrNull(&Object(&[
            ("slab_bytes", Count),
            ("page_bytes", Count),
            ("locked", Truth),
            ("numa_node", OrNull(&Count)),
        ])),
    ),
    ("listening", OrNull(&Text)),
    ("connections", Count),
    ("bad_peers", Count),
    (
        "region",
        OrNull(&Object(&[
            ("name", Text),
            ("id", Text),
            ("created", Truth),
            ("taken_over_from", OrNull(&Count)),
            ("members", Count),
            ("redelivered", Count),
            ("pending", Count),
            ("reclaimed", Count),
            ("quarantined", Count),
        ])),
    ),
    ("io", OrNull(&Object(&[("backend", Text), ("why", Text)]))),
    ("kernel", OrNull(&Object(&[("file", Text), ("entry", Text)]))),
    ("filtered", Count),
    ("output_bytes_total", Count),
    ("verified", OrNull(&Count)),
    ("corrupt", OrNull(&Count)),
    ("verified_on", OrNull(&Text)),
    ("verified_on_host_because", OrNull(&Text)),
    ("stopped_by", Text),
    ("error", OrNull(&Object(&[("kind", Text), ("message", Text), ("fix", OrNull(&Text))]))),
]);

/// The fields of a line of `--stats-interval`.
const LINE: Kind = Object(&[
    ("schema", Count),
    ("seconds", Rate),
    ("accepted", Count),
    ("delivered", Count),
    ("dropped", Count),
    ("rejected", Count),
    ("skipped", Count),
    ("stalled_seconds", OrNull(&Rate)),
]);

const STOPS: [&str; 6] = ["messages", "duration", "end", "connections", "signal", "error"];

/// Reads one document on one line, and checks it.
pub(crate) fn parse(text: &str) -> Value {
    let document = read(text, DOCUMENT);
    let number = |name: &str| document[name].as_u64().expect("checked above");
    assert_eq!(number("schema"), 1);
    assert_eq!(number("accepted"), number("delivered") + number("dropped"), "{document}");
    let latency = ["p50", "p99", "p999", "max"].map(|name| document["latency_ns"][name].as_u64());
    assert!(latency.is_sorted(), "{document}");
    let stopped_by = document["stopped_by"].as_str().expect("checked above");
    assert!(STOPS.contains(&stopped_by), "{document}");
    assert!(stopped_by != "error" || !document["error"].is_null(), "an error without its reason: {document}");
    assert_eq!(document["verified"].is_null(), document["corrupt"].is_null(), "{document}");
    let places = document["verified_on"]
        .as_str()
        .map(|place| (place, document["verified_on_host_because"].is_string()));
    assert!([None, Some(("device", false)), Some(("host", true))].contains(&places), "{document}");
    assert!(
        document["kernel"].is_object() || number("filtered") + number("output_bytes_total") == 0,
        "{document}"
    );
    if !document["error"].is_null() {
        for name in ["kind", "message"] {
            assert!(document["error"][name].as_str().is_some_and(|text| !text.is_empty()), "{document}");
        }
    }
    document
}

/// Reads a line of `--stats-interval`, and checks it.
pub(crate) fn parse_line(text: &str) -> Value {
    let line = read(text, LINE);
    let number = |name: &str| line[name].as_u64().expect("checked above");
    assert_eq!(number("schema"), 1);
    assert!(number("accepted") >= number("delivered") + number("dropped"), "{line}");
    line
}

pub(super) fn read(text: &str, kind: Kind) -> Value {
    assert_eq!(text.trim_end().lines().count(), 1, "not one line: {text:?}");
    let document: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
    check(&document, kind, "document");
    document
}

fn check(value: &Value, kind: Kind, path: &str) {
    let right = match kind {
        Count => value.is_u64(),
        Rate => value.as_f64().is_some_and(|rate| rate >= 0.0 && rate.is_finite()),
        Text => value.is_string(),
        Truth => value.is_boolean(),
        OrNull(kind) => {
            if !value.is_null() {
                check(value, *kind, path);
            }
            true
        }
        Object(fields) => {
            let object = value.as_object().unwrap_or_else(|| panic!("{path} is {value}"));
            check_fields(object, fields, path);
            true
        }
    };
    assert!(right, "{path} is {value}, and should be {kind:?}");
}

fn check_fields(object: &Map<String, Value>, fields: &[(&str, Kind)], path: &str) {
    for (name, kind) in fields {
        let value = object.get(*name).unwrap_or_else(|| panic!("{path} has no {name}"));
        check(value, *kind, &format!("{path}.{name}"));
    }
    assert_eq!(object.len(), fields.len(), "{path} has more fields: {:?}", object.keys());
}
