//! Each release has its acquire: a label stands on at least two sides.
//!
//! A side is a comment where the operation is: a plain one, `// SYNC: name`, or the documentation of the function that is
//! the operation. A name is one word. Documentation of a field or a type may mention a label, but a mention orders
//! nothing, so it does not count as a side.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::repository::Source;
use crate::rust::RustText;

const MARK: &str = "SYNC:";

#[derive(Default)]
struct Places<'a> {
    sides: Vec<(&'a str, usize)>,
    mentions: Vec<(&'a str, usize)>,
}

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut labels: BTreeMap<String, Places<'_>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust() && source.is_below("crates")) {
        let rust = RustText::parse(&source.text);
        let code: Vec<&str> = rust.code.lines().collect();
        for comment in &rust.comments {
            let is_mention = comment.is_doc && !is_about_function(&code[comment.line - 1..]);
            for (at, _) in comment.text.match_indices(MARK) {
                let place = (source.path.as_str(), comment.line);
                match label(&comment.text[at + MARK.len()..]) {
                    Some(label) if is_mention => {
                        labels.entry(label.to_owned()).or_default().mentions.push(place);
                    }
                    Some(label) => labels.entry(label.to_owned()).or_default().sides.push(place),
                    // Documentation may explain the labels without naming one.
                    None if comment.is_doc => {}
                    None => findings.push(Finding::new(place.0, place.1, "`SYNC:` without a label")),
                }
            }
        }
    }
    for (label, places) in &labels {
        match (places.sides.as_slice(), places.mentions.as_slice()) {
            ([(path, line)], _) => findings.push(Finding::new(
                path,
                *line,
                format!("`SYNC: {label}` stands alone: its other side has no such comment"),
            )),
            ([], [(path, line), ..]) => findings.push(Finding::new(
                path,
                *line,
                format!("`SYNC: {label}` is named here, but stands beside no operation (`// SYNC: {label}`)"),
            )),
            _ => {}
        }
    }
    findings
}

/// Takes the code from the comment on, in which comments are blank.
fn is_about_function(code: &[&str]) -> bool {
    let is_item = |line: &&&str| !line.trim().is_empty() && !line.trim_start().starts_with("#[");
    code.iter()
        .find(is_item)
        .is_some_and(|line| line.trim_start().starts_with("fn ") || line.contains(" fn "))
}

fn label(text: &str) -> Option<&str> {
    let text = text.strip_prefix(' ').unwrap_or(text);
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<Finding> {
        check(&[Source::new("crates/a/src/ring.rs", text)])
    }

    #[test]
    fn a_pair_passes() {
        let text = "/// Paired with `SYNC: publish`, see the `SYNC:` labels.\n// SYNC: publish (release)\n// SYNC: publish, acquire\n";
        assert_eq!(findings(text), []);
    }

    #[test]
    fn a_pair_may_span_files() {
        let one = Source::new("crates/a/src/a.rs", "// SYNC: wake");
        let two = Source::new("crates/b/src/b.rs", "// SYNC: wake");
        assert_eq!(check(&[one, two]), []);
    }

    #[test]
    fn a_lone_side_is_caught() {
        let found = findings("// SYNC: publish\n// SYNC: close\n\n// SYNC: publish\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].line == 2 && found[0].message.contains("close"));
    }

    #[test]
    fn a_mention_is_not_a_side() {
        assert_eq!(findings("/// SYNC: publish\n// SYNC: publish\n").len(), 1);
        assert_eq!(findings("/// SYNC: publish\n/// SYNC: publish\n").len(), 1);
    }

    #[test]
    fn a_documented_function_is_a_side() {
        let up = "/// Up. SYNC: flag\n///\n/// More.\n#[inline]\npub(crate) fn up() {}\n";
        let down = "/// Down. SYNC: flag\nfn down() {}\n";
        assert_eq!(findings(&format!("{up}{down}")), []);
        assert_eq!(findings(up).len(), 1);
        assert_eq!(findings(&format!("{down}/// SYNC: flag\nfield: fn(u8),\n")).len(), 1);
    }

    #[test]
    fn a_missing_label_is_caught() {
        assert_eq!(findings("// SYNC:\n").len(), 1);
    }

    #[test]
    fn strings_hold_no_labels() {
        assert_eq!(findings("let a = \"// SYNC: publish\";"), []);
    }
}
