//! Texts on their way in and out: the server's texts cannot hold NUL, ours can.
//!
//! A NUL becomes U+0001 and `0`, a U+0001 becomes U+0001 and `1`. No two texts become the same, so whatever is compared or
//! unique stays so; a text without either character, which is nearly every one, is kept as it is.

use std::borrow::Cow;

const ESCAPE: char = '\u{1}';

/// A text as it is kept.
pub(super) fn kept(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => kept.extend([ESCAPE, '0']),
            ESCAPE => kept.extend([ESCAPE, '1']),
            other => kept.push(other),
        }
    }
    Cow::Owned(kept)
}

/// A text as it was before it was kept.
pub(super) fn told(kept: String) -> String {
    if !kept.contains(ESCAPE) {
        return kept;
    }
    let mut text = String::with_capacity(kept.len());
    let mut characters = kept.chars();
    while let Some(character) = characters.next() {
        match character {
            ESCAPE => text.push(if characters.next() == Some('0') { '\0' } else { ESCAPE }),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_as_it_was_and_none_holds_nul_meanwhile() {
        for text in ["", "plain", "a\0b", "\0", "\u{1}0", "\u{1}\0\u{1}1", "定时\0"] {
            let kept = kept(text).into_owned();
            assert!(!kept.contains('\0'), "{text:?}");
            assert_eq!(told(kept), text);
        }
    }
}
