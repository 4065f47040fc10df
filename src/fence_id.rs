//! Floor 2. Draws the names of fences from the system's source of chance, when the text
//! inside is complete. Called by the edges, which put a model's context together.

use std::io;

use crate::shaping::fence::FenceId;

/// A name that nobody can guess. Fails when the system has no chance to give.
pub fn draw() -> io::Result<FenceId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::from)?;
    Ok(FenceId(u128::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_fences_have_the_same_name() {
        let drawn: std::collections::HashSet<u128> = (0..1000).map(|_| draw().unwrap().0).collect();
        assert_eq!(drawn.len(), 1000);
    }
}
