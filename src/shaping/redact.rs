//! stub
#[derive(Debug, Default)]
pub struct Redactor;
impl Redactor {
    pub fn new(_s: &[crate::config::spec::SecretText]) -> Self {
        Self
    }
    pub fn text<'a>(&self, text: &'a str) -> std::borrow::Cow<'a, str> {
        text.into()
    }
}
