//! Rust text, taken apart far enough to tell code, comments and literals from each other.
//!
//! The checks ask simple questions ("is there a function in this file?") that a plain search answers wrongly as soon as
//! a comment or a string mentions the word. A parser would answer them too, at the price of a dependency that takes
//! longer to build than everything else here.

/// A line of comment, without its slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comment {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    /// `///`, `//!`, `/** */` or `/*! */`.
    pub(crate) is_doc: bool,
}

/// A Rust file in two layers.
#[derive(Debug)]
pub(crate) struct RustText {
    /// The file with comments and literals blanked; its lines are those of the file.
    pub(crate) code: String,
    pub(crate) comments: Vec<Comment>,
}

impl RustText {
    pub(crate) fn parse(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut code = bytes.to_vec();
        let mut comments = Vec::new();
        let mut at = 0;
        let mut line = 1;
        while at < bytes.len() {
            let end = match bytes[at] {
                b'/' if bytes[at..].starts_with(b"//") => {
                    let end = at + text[at..].find('\n').unwrap_or(text.len() - at);
                    add_comment(&text[at..end], line, &mut comments);
                    end
                }
                b'/' if bytes[at..].starts_with(b"/*") => {
                    let end = block_comment_end(bytes, at);
                    add_comment(&text[at..end], line, &mut comments);
                    end
                }
                b'"' => string_end(bytes, at),
                b'r' if !follows_identifier(bytes, at) => raw_string_end(bytes, at).unwrap_or(at),
                b'\'' => char_end(text, at).unwrap_or(at),
                _ => at,
            };
            if end == at {
                line += usize::from(bytes[at] == b'\n');
                at += 1;
            } else {
                for byte in &mut code[at..end] {
                    if *byte == b'\n' {
                        line += 1;
                    } else {
                        *byte = b' ';
                    }
                }
                at = end;
            }
        }
        // Literals and comments are blanked whole, so no character is cut in two.
        Self { code: String::from_utf8_lossy(&code).into_owned(), comments }
    }

    /// The code without the items that exist in tests only.
    pub(crate) fn code_without_tests(&self) -> String {
        let mut code = self.code.clone().into_bytes();
        for marker in ["#[cfg(test)]", "#[cfg(all(test"] {
            for (start, _) in self.code.match_indices(marker) {
                let end = item_end(self.code.as_bytes(), start + marker.len());
                for byte in &mut code[start..end] {
                    if *byte != b'\n' {
                        *byte = b' ';
                    }
                }
            }
        }
        String::from_utf8_lossy(&code).into_owned()
    }
}

/// Whether `text[at..]` goes on with a word that began before `at`.
pub(crate) fn follows_identifier(bytes: &[u8], at: usize) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    match at.checked_sub(1).map(|before| bytes[before]) {
        // The prefixes of byte and C strings, `br"` and `cr"`.
        Some(b'b' | b'c') if bytes[at] == b'r' => at >= 2 && is_word(bytes[at - 2]),
        Some(before) => is_word(before),
        None => false,
    }
}

fn add_comment(text: &str, first_line: usize, comments: &mut Vec<Comment>) {
    let is_doc = (text.starts_with("///") && !text.starts_with("////"))
        || text.starts_with("//!")
        || (text.starts_with("/**") && text.len() > 4)
        || text.starts_with("/*!");
    for (offset, line) in text.lines().enumerate() {
        let text = line.trim().trim_start_matches(['/', '*', '!']).trim_end_matches("*/").trim();
        comments.push(Comment { line: first_line + offset, text: text.to_owned(), is_doc });
    }
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn raw_string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let hashes = bytes[start + 1..].iter().take_while(|&&byte| byte == b'#').count();
    let open = start + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut closing = vec![b'"'];
    closing.resize(1 + hashes, b'#');
    let body = &bytes[open + 1..];
    let length = body.windows(closing.len()).position(|window| window == closing);
    Some(length.map_or(bytes.len(), |length| open + 1 + length + closing.len()))
}

/// `None` for the quote of a lifetime or a label.
fn char_end(text: &str, start: usize) -> Option<usize> {
    let body = &text[start + 1..];
    let first = body.chars().next()?;
    if first == '\\' {
        // The escaped character may itself be a quote.
        let escaped = 1 + body[1..].chars().next()?.len_utf8();
        return body[escaped..].find('\'').map(|at| start + 1 + escaped + at + 1);
    }
    body[first.len_utf8()..].starts_with('\'').then(|| start + 1 + first.len_utf8() + 1)
}

/// Where the item that follows an attribute ends: after its block, or after its semicolon.
fn item_end(code: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut brackets = 0_usize;
    for (at, byte) in code.iter().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => brackets += 1,
            // Saturating, because `start` may lie within the brackets of the attribute.
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b';' if depth == 0 && brackets == 0 => return at + 1,
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let text =
            "let a = \"fn // no\"; // fn one\n/* fn /* two */ */ let b = r#\"fn \"x\" \"#;\nfn real() {}\n";
        let rust = RustText::parse(text);
        assert_eq!(rust.code.matches("fn").count(), 1);
        assert_eq!(rust.code.lines().count(), 3);
        let comments: Vec<_> = rust.comments.iter().map(|c| (c.line, c.text.as_str())).collect();
        assert_eq!(comments, [(1, "fn one"), (2, "fn /* two */")]);
    }

    #[test]
    fn quotes_of_lifetimes_and_chars_are_told_apart() {
        let rust = RustText::parse(
            "fn f<'a>(x: &'a str) { m('\"', '\\'', b'{', 'é', '\\u{1F600}', br\"}\") } // end",
        );
        assert_eq!(rust.code.matches(['{', '}']).count(), 2);
        assert!(rust.code.contains("<'a>"));
        assert_eq!(rust.comments.len(), 1);
    }

    #[test]
    fn doc_comments_are_marked() {
        let rust = RustText::parse("//! a\n/// b\n// c\n//// d\n/** e */ fn f() {}\n/* g\n h */\n");
        let docs: Vec<_> = rust.comments.iter().map(|c| (c.line, c.is_doc)).collect();
        assert_eq!(docs, [(1, true), (2, true), (3, false), (4, false), (5, true), (6, false), (7, false)]);
    }

    #[test]
    fn items_of_tests_are_left_out() {
        let text = "mod a;\n#[cfg(test)]\nmod tests {\n  fn t() { { } }\n}\n#[cfg(test)]\nuse b;\n\
                    #[cfg(all(test, unix))]\nfn d() -> [u8; 2] { [0; 2] }\nfn c() {}\n";
        let code = RustText::parse(text).code_without_tests();
        assert_eq!(code.matches("fn ").count(), 1);
        assert!(!code.contains("use b") && code.contains("mod a;") && code.contains("fn c()"));
    }

    #[test]
    fn unfinished_text_ends() {
        for text in ["\"abc", "/* abc", "r##\"abc\"#", "'", "'\\", "#[cfg(test)]", "\"\\"] {
            RustText::parse(text).code_without_tests();
        }
    }
}
