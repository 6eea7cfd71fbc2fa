//! `SAFETY.md` and the code speak of the same invariants.
//!
//! An invariant is defined by a heading (`### I1 One owner a slot`) or by a bold item (`- **I1**`). A safety comment may
//! cite only what is defined, and an invariant that no comment cites protects nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::repository::Source;
use crate::rust::{Comment, RustText, follows_identifier};

const PAGE: &str = "SAFETY.md";

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut defined = BTreeMap::new();
    for page in sources.iter().filter(|source| source.path == PAGE) {
        for (line, text) in (1..).zip(page.text.lines()) {
            let Some(invariant) = definition(text) else { continue };
            if let Some(first) = defined.insert(invariant, line) {
                let message = format!("I{invariant} is defined twice, first in line {first}");
                findings.push(Finding::new(PAGE, line, message));
            }
        }
    }
    let mut cited = BTreeSet::new();
    for source in sources.iter().filter(|source| source.is_rust() && source.is_below("crates")) {
        let comments = RustText::parse(&source.text).comments;
        cited.extend(comments.iter().flat_map(|comment| citations(&comment.text)));
        for comment in safety_comments(&comments) {
            for invariant in citations(&comment.text).into_iter().filter(|i| !defined.contains_key(i)) {
                let message = format!("I{invariant} is not defined in {PAGE}");
                findings.push(Finding::new(&source.path, comment.line, message));
            }
        }
    }
    for (invariant, line) in defined.iter().filter(|(invariant, _)| !cited.contains(*invariant)) {
        findings.push(Finding::new(PAGE, *line, format!("no comment in crates/ cites I{invariant}")));
    }
    findings
}

/// The lines of the blocks of plain comments that begin with `SAFETY:`.
fn safety_comments(comments: &[Comment]) -> Vec<&Comment> {
    let mut last_line = None;
    let mut block = Vec::new();
    for comment in comments.iter().filter(|comment| !comment.is_doc) {
        let goes_on = last_line.is_some_and(|line| line + 1 == comment.line);
        if comment.text.starts_with("SAFETY:") || goes_on {
            block.push(comment);
            last_line = Some(comment.line);
        }
    }
    block
}

fn definition(line: &str) -> Option<u32> {
    let heading = line.trim_start_matches('#');
    let text = if heading.len() < line.len() {
        heading.strip_prefix(' ')?
    } else {
        line.trim_start().trim_start_matches("- ").strip_prefix("**")?
    };
    citation_at(text, 0)
}

fn citations(text: &str) -> Vec<u32> {
    text.match_indices('I').filter_map(|(at, _)| citation_at(text, at)).collect()
}

/// `I` and one or two digits, not part of a longer word.
fn citation_at(text: &str, at: usize) -> Option<u32> {
    let rest = text[at..].strip_prefix('I')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let is_word = rest[digits..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    if !(1..=2).contains(&digits) || is_word || follows_identifier(text.as_bytes(), at) {
        return None;
    }
    rest[..digits].parse().ok().filter(|&invariant| invariant > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# Safety\n\nSee I7.\n\n### I1 One owner a slot\n\n- **I2** A region outlives its operations\n";

    fn messages(page: &str, code: &str) -> Vec<String> {
        let sources = [Source::new(PAGE, page), Source::new("crates/a/src/a.rs", code)];
        check(&sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn cited_and_defined_passes() {
        let code = "// SAFETY: the slot is ours\n// by I1, so nobody reads.\n/// # Safety\n/// I2 holds, u8::I9 is a constant.\n";
        assert_eq!(messages(TEXT, code), [""; 0]);
    }

    #[test]
    fn an_undefined_invariant_is_caught() {
        let code =
            "// SAFETY: by I1 and\n// by (I3).\nlet a = 1;\n// I4 is not in a safety comment, I2 is cited.\n";
        assert_eq!(messages(TEXT, code), ["crates/a/src/a.rs:2: I3 is not defined in SAFETY.md"]);
    }

    #[test]
    fn an_idle_invariant_is_caught() {
        let found =
            messages(TEXT, "// SAFETY: I1 holds, and \"I2\" is cited by a string only\nlet a = \"I2\";\n");
        assert_eq!(found, [""; 0], "a comment cites I2");
        let found = messages(TEXT, "// SAFETY: I1 holds.\nlet a = \"I2\";\n");
        assert_eq!(found, ["SAFETY.md:7: no comment in crates/ cites I2"]);
    }

    #[test]
    fn a_second_definition_is_caught() {
        let found = messages("## I1\n**I1** again\n", "// SAFETY: I1\n");
        assert_eq!(found, ["SAFETY.md:2: I1 is defined twice, first in line 1"]);
    }

    #[test]
    fn words_that_look_alike_are_not_citations() {
        assert_eq!(citations("I1, I22. I333 I0 AI1 I1x I_1 (I5) I"), [1, 22, 5]);
        assert_eq!(definition("- I1 is mentioned"), None);
        assert_eq!(definition("I1 is mentioned"), None);
    }
}
