//! The document of `transload send --json`: its fields, their types, and what always holds between them.

use serde_json::Value;

use super::document::Kind::{self, Count, Object, OrNull, Rate, Text, Truth};
use super::document::read;

/// All fields, in the order in which they are written.
const DOCUMENT: Kind = Object(&[
    ("schema", Count),
    ("to", Text),
    ("bytes", Count),
    ("messages", OrNull(&Count)),
    ("seconds", Rate),
    ("bytes_per_second", Rate),
    ("connections", Count),
    ("sends", Count),
    ("short_sends", Count),
    ("zero_copied", Count),
    ("copied", Count),
    ("zero_copy_refused", Count),
    ("io", OrNull(&Object(&[("backend", Text), ("why", Text)]))),
    (
        "memory",
        OrNull(&Object(&[
            ("buffers", Count),
            ("buffer_bytes", Count),
            ("locked", Truth),
            ("registration", Text),
            ("reason", OrNull(&Text)),
        ])),
    ),
    ("remark", OrNull(&Text)),
    ("stopped_by", Text),
    ("error", OrNull(&Object(&[("kind", Text), ("message", Text), ("fix", OrNull(&Text))]))),
]);

/// Reads one document on one line, and checks it.
pub(crate) fn parse(text: &str) -> Value {
    let document = read(text, DOCUMENT);
    assert_eq!(document["schema"], 1);
    let stopped_by = document["stopped_by"].as_str().expect("checked above");
    assert!(["messages", "duration", "end", "signal", "error"].contains(&stopped_by), "{document}");
    assert!(stopped_by != "error" || !document["error"].is_null(), "an error without its reason: {document}");
    if let Some(memory) = document["memory"].as_object() {
        let pinned = memory["registration"] == "pinned";
        assert!(pinned || memory["registration"] == "copy", "{document}");
        assert_eq!(pinned, memory["reason"].is_null(), "{document}");
    }
    if document["sends"] == 0 {
        assert_eq!(document["bytes"], 0, "{document}");
    }
    document
}
