//! Whether a URI can come from a URI template (RFC 6570): literals must be there, in order;
//! an expression stands for any text. Pure.

/// A template as its literals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    text: String,
    /// The literals between the expressions, at least one; the first is a prefix, the last a suffix.
    literals: Vec<String>,
}

impl Template {
    /// Reads a template. A brace that is not closed is a literal.
    pub(super) fn new(text: &str) -> Self {
        let mut literals = vec![String::new()];
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let Some(close) = rest[open..].find('}') else { break };
            if let Some(last) = literals.last_mut() {
                last.push_str(&rest[..open]);
            }
            literals.push(String::new());
            rest = &rest[open + close + 1..];
        }
        if let Some(last) = literals.last_mut() {
            last.push_str(rest);
        }
        Self { text: text.to_owned(), literals }
    }

    /// Whether the URI can come from it, or is its own text.
    pub(super) fn fits(&self, uri: &str) -> bool {
        if uri == self.text {
            return true;
        }
        let [first, rest @ ..] = self.literals.as_slice() else { return false };
        let Some(mut left) = uri.strip_prefix(first.as_str()) else { return false };
        let Some((last, middle)) = rest.split_last() else { return left.is_empty() };
        for literal in middle {
            let Some(at) = left.find(literal.as_str()) else { return false };
            left = &left[at + literal.len()..];
        }
        left.ends_with(last.as_str())
    }

    /// How much it says: of several that fit, the one with the most literal text.
    pub(super) fn weight(&self) -> usize {
        self.literals.iter().map(String::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_fits_a_template_when_its_literals_are_there_in_order() {
        for (template, uri, fits) in [
            ("test://template/{id}/data", "test://template/123/data", true),
            ("test://template/{id}/data", "test://template/123/info", false),
            ("test://template/{id}/data", "test://template/{id}/data", true),
            ("file:///{+path}", "file:///a/b/c", true),
            ("file:///{+path}", "http:///a", false),
            ("a://x", "a://x", true),
            ("a://x", "a://xy", false),
            ("a://{x", "a://{x", true),
            ("{scheme}://{host}", "b://c", true),
            ("{a}-{b}-{c}", "1-2", false),
            ("", "", true),
        ] {
            assert_eq!(Template::new(template).fits(uri), fits, "{template} {uri}");
        }
        assert!(Template::new("file:///a/{x}").weight() > Template::new("file:///{x}").weight());
    }
}
