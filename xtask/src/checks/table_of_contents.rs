//! `lib.rs` and `mod.rs` are tables of contents: modules, re-exports, documentation.

use crate::finding::Finding;
use crate::repository::Source;
use crate::rust::{RustText, follows_identifier};

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let is_contents = |source: &&Source| {
        let mut names = source.path.split('/').rev();
        let is_named_so = matches!(names.next(), Some("lib.rs" | "mod.rs"));
        // Helpers of integration tests live in `tests/common/mod.rs`.
        is_named_so && source.is_below("crates") && names.any(|folder| folder == "src")
    };
    sources.iter().filter(is_contents).flat_map(functions).collect()
}

fn functions(source: &Source) -> Vec<Finding> {
    let code = RustText::parse(&source.text).code_without_tests();
    let name = |(line, text): (usize, &str)| {
        let name = function_name(text)?.to_owned();
        let message = format!("function `{name}` in a table of contents: move it to a file of its own");
        Some(Finding::new(&source.path, line, message))
    };
    (1..).zip(code.lines()).filter_map(name).collect()
}

/// The type of a function pointer, `fn(u8)`, has no name.
fn function_name(line: &str) -> Option<&str> {
    line.match_indices("fn ").find_map(|(at, word)| {
        let rest = line[at + word.len()..].trim_start();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        (end > 0 && !follows_identifier(line.as_bytes(), at)).then(|| &rest[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENTS: &str = "//! fn example() {}\npub mod a;\npub use a::A;\n/// ```\n/// fn main() {}\n/// ```\n\
                            pub type F = fn (u8);\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn t() {}\n}\n";

    #[test]
    fn a_table_of_contents_passes() {
        assert_eq!(check(&[Source::new("crates/a/src/lib.rs", CONTENTS)]), []);
    }

    #[test]
    fn a_function_is_caught() {
        let text = format!("{CONTENTS}impl A {{\n    pub(crate) fn grow(&self) {{}}\n}}\n");
        for path in ["crates/a/src/lib.rs", "crates/a/src/device/mod.rs"] {
            let found = check(&[Source::new(path, &text)]);
            assert_eq!(found.len(), 1);
            assert!(found[0].line == 14 && found[0].message.contains("`grow`"), "{found:?}");
        }
    }

    #[test]
    fn other_files_hold_functions() {
        for path in ["crates/a/src/a.rs", "crates/a/tests/common/mod.rs", "xtask/src/checks/mod.rs"] {
            assert_eq!(check(&[Source::new(path, "fn a() {}")]), []);
        }
    }
}
