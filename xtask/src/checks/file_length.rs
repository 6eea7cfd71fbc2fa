//! One noun a file: a file that has grown long holds several.

use crate::finding::Finding;
use crate::repository::Source;

const LINES: usize = 500;
const LINES_OF_TESTS: usize = 800;

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let too_long = |source: &Source| {
        let is_test = source.is_below("testing") || source.path.split('/').any(|folder| folder == "tests");
        let limit = if is_test { LINES_OF_TESTS } else { LINES };
        let lines = source.text.lines().count();
        let message = format!("{lines} lines, the limit is {limit}: give its second noun a file of its own");
        (lines > limit).then(|| Finding::new(&source.path, limit + 1, message))
    };
    sources.iter().filter(|source| source.is_rust()).filter_map(too_long).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, lines: usize) -> bool {
        !check(&[Source::new(path, &"//\n".repeat(lines))]).is_empty()
    }

    #[test]
    fn long_files_are_caught() {
        assert!(!found("crates/a/src/a.rs", 500));
        assert!(found("crates/a/src/a.rs", 501));
    }

    #[test]
    fn tests_may_be_longer() {
        for path in ["crates/a/tests/a.rs", "testing/conformance/src/device.rs"] {
            assert!(!found(path, 800));
            assert!(found(path, 801));
        }
    }

    #[test]
    fn other_files_may_be_of_any_length() {
        assert!(!found("Cargo.lock", 2000));
    }
}
