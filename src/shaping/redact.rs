//! stub
#[derive(Debug, Default)]
pub struct Redactor;
impl Redactor {
    pub fn text<'a>(&self, text: &'a str) -> std::borrow::Cow<'a, str> { text.into() }
}
