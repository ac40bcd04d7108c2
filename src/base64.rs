//! Bytes as letters: for the terminal's clipboard, and for files on a tape.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let n = chunk.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let letter = LETTERS[(n >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// `None`: it is not what [`encode`] makes.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let letters = text.trim_end_matches('=').as_bytes();
    if !text.len().is_multiple_of(4) || text.len() - letters.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(letters.len() / 4 * 3 + 2);
    for chunk in letters.chunks(4) {
        let mut n = 0u32;
        for letter in chunk {
            let value = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            n = n << 6 | u32::from(value);
        }
        let bytes = (n << (6 * (4 - chunk.len()))).to_be_bytes();
        out.extend_from_slice(&bytes[1..chunk.len().max(1)]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        assert_eq!(["", "f", "fo", "foo", "foob"].map(|t| encode(t.as_bytes())), ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
        for length in 0..70u8 {
            let bytes: Vec<u8> = (0..length).map(|i| i.wrapping_mul(37)).collect();
            assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
        for text in ["a", "a===", "ab=c", "Zm9\n", "é===", "===="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
