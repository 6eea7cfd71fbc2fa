//! Words that must not be committed: marks of unfinished work, and names that mean something on one machine only.

use crate::finding::Finding;
use crate::repository::Source;
use crate::rust::{RustText, follows_identifier};

/// In code. A test that is never run proves nothing: a test that cannot run here says so when it runs.
const CODE: [(&str, &str); 4] = [
    ("todo!", "is unfinished work"),
    ("unimplemented!", "is unfinished work"),
    ("dbg!", "is left over from a search for a fault"),
    ("#[ignore", "hides a test: let it run, and skip with a reason"),
];

/// In comments.
const COMMENTS: [(&str, &str); 2] = [("FIXME", "is unfinished work"), ("XXX", "is unfinished work")];

/// In files of every kind. Written in two halves, so that this file may be checked like any other.
const TEXT: [(&str, &str); 7] = [
    (concat!("/ho", "me/"), "is a path of one machine"),
    (concat!("/ro", "ot/"), "is a path of one machine"),
    (concat!("/wo", "rk/"), "is a path of one machine"),
    (concat!("index.cra", "tes.io"), "is a registry's host: let cargo know it"),
    (concat!("static.cra", "tes.io"), "is a registry's host: let cargo know it"),
    (concat!("spar", "se+"), "is a registry's address: let cargo know it"),
    (concat!("replace", "-with ="), "replaces a registry: that belongs into a person's own configuration"),
];

const LOCK: &str = "Cargo.lock";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let mut search = |line: usize, text: &str, words: &[(&str, &str)]| {
            for (word, why) in words.iter().filter(|(word, _)| holds(text, word)) {
                findings.push(Finding::new(&source.path, line, format!("`{word}` {why}")));
            }
        };
        for (line, text) in (1..).zip(source.text.lines()) {
            search(line, text, &TEXT);
        }
        if source.is_rust() {
            let rust = RustText::parse(&source.text);
            for (line, text) in (1..).zip(rust.code.lines()) {
                search(line, text, &CODE);
            }
            for comment in &rust.comments {
                search(comment.line, &comment.text, &COMMENTS);
            }
        }
        if source.path.rsplit('/').next() == Some(LOCK) {
            findings.extend(check_lock(source));
        }
    }
    findings
}

/// Every dependency comes from the public registry, so that everybody builds the same.
fn check_lock(lock: &Source) -> Vec<Finding> {
    let foreign = |(line, text): (usize, &str)| {
        let address = text.strip_prefix("source = \"")?.trim_end_matches('"');
        let message = format!("a dependency comes from {address}, not from the public registry");
        (address != REGISTRY).then(|| Finding::new(&lock.path, line, message))
    };
    (1..).zip(lock.text.lines()).filter_map(foreign).collect()
}

/// Whether `text` holds `word`, neither as the end nor as the beginning of a longer word.
fn holds(text: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = if word.starts_with('/') {
            text[..at].ends_with(|c: char| is_name(c) || matches!(c, '.' | '-' | '~' | '}' | ')' | ']'))
        } else {
            word.starts_with(is_name) && follows_identifier(text.as_bytes(), at)
        };
        let after = word.ends_with(is_name) && text[at + word.len()..].starts_with(is_name);
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&[Source::new(path, text)]).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn unfinished_work_is_caught() {
        let text = "fn a() { todo!() }\nfn b() { unimplemented!() }\nfn c() { dbg!(1) }\n\
                    #[ignore = \"slow\"]\n// FIXME later\n/// XXX\n";
        assert_eq!(lines("crates/a/src/a.rs", text), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn words_of_other_meaning_pass() {
        let text = "let a = \"todo!() FIXME\";\n// XXXX todo!() ignored\nmy_todo!();\n#[ignored]\n";
        assert_eq!(lines("crates/a/src/a.rs", text), [0; 0]);
    }

    #[test]
    fn paths_of_one_machine_are_caught() {
        let text = format!("a {}me/me\n`{}rk/x`\n\"{}ot/x\"", "/ho", "/wo", "/ro");
        assert_eq!(lines("README.md", &text), [1, 2, 3]);
        assert_eq!(lines("crates/a/src/a.rs", &text), [1, 2, 3]);
    }

    #[test]
    fn relative_paths_pass() {
        let text = format!("src{0}rk/a\n../net{0}rk/b\n$X{0}rk/\n.{0}rk/\n{{x}}{0}rk/\n", "/wo");
        assert_eq!(lines("README.md", &text), [0; 0]);
    }

    #[test]
    fn registries_are_caught() {
        let text = format!("{}-with = \"mirror\"\nregistry = \"{}se+https://a\"\n", "replace", "spar");
        assert_eq!(lines(".cargo/config.toml", &text), [1, 2]);
        let lock = format!("source = \"{REGISTRY}\"\nsource = \"git+https://a/b#c\"\n");
        assert_eq!(lines("bench/Cargo.lock", &lock), [2]);
    }
}
