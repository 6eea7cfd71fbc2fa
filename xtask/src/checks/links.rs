//! Relative links in Markdown files lead to files that exist.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::repository::Source;

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut known = BTreeSet::new();
    for source in sources {
        let mut path = source.path.as_str();
        while known.insert(path) {
            // The folder that holds it.
            let Some((folder, _)) = path.rsplit_once('/') else { break };
            path = folder;
        }
    }
    let mut findings = Vec::new();
    for page in sources.iter().filter(|source| source.is_markdown()) {
        for (line, target) in targets(&page.text) {
            let path = target.split(['#', '?']).next().unwrap_or_default();
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            if path.is_empty() || is_elsewhere {
                continue;
            }
            let found = resolve(&page.path, path)
                .is_some_and(|path| path.is_empty() || known.contains(path.as_str()));
            if !found {
                findings.push(Finding::new(&page.path, line, format!("link to `{target}`: no such file")));
            }
        }
    }
    findings
}

/// The path that a link means, relative to the root; `None` above it.
fn resolve(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    if link.starts_with('/') {
        parts.clear();
    }
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The targets of inline links, `[text](target "title")`, and of reference definitions, `[name]: target`.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    let mut fence = None;
    for (line, text) in (1..).zip(text.lines()) {
        let trimmed = text.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(_), _) if mark == fence => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                let text = without_code(text);
                for (at, open) in text.match_indices("](") {
                    let rest = &text[at + open.len()..];
                    let target = rest[..rest.find(')').unwrap_or(rest.len())].split_whitespace().next();
                    targets.extend(target.map(|target| (line, target.to_owned())));
                }
                if let Some((_, rest)) = trimmed.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
                    targets.extend(rest.split_whitespace().next().map(|target| (line, target.to_owned())));
                }
            }
        }
    }
    targets
}

/// The text outside of `code`.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(page: &str, text: &str) -> Vec<usize> {
        let sources = [
            Source::new(page, text),
            Source::new("SAFETY.md", ""),
            Source::new("docs/ring.md", ""),
            Source::new("crates/a/src/lib.rs", ""),
        ];
        check(&sources).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn good_links_pass() {
        let text = "[a](SAFETY.md#i1) [`b`](docs/ring.md \"title\") ![c](./docs) [d](#here) [e](https://x.y/z)\n\
                    [r]: crates/a/src/lib.rs\n`[x](nowhere.md)`\n```\n[y](nowhere.md)\n```\n[z](/SAFETY.md) [m](mailto:a@b)\n";
        assert_eq!(lines("README.md", text), [0; 0]);
        assert_eq!(lines("docs/other.md", "[a](ring.md) [b](../SAFETY.md) [c](../)"), [0; 0]);
    }

    #[test]
    fn broken_links_are_caught() {
        let text = "[a](SAFTY.md)\n\n~~~\n```\n~~~\n[b](docs/ring.md) [c](ring.md#x)\n[r]: nowhere.md\n";
        assert_eq!(lines("README.md", text), [1, 6, 7]);
        assert_eq!(lines("docs/other.md", "[a](SAFETY.md)\n[b](../../SAFETY.md)"), [1, 2]);
    }
}
