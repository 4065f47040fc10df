//! stub
pub fn one_line(t: &str, max: usize) -> String {
    t.chars().take(max).collect()
}
