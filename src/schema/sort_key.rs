//! Spells numbers as bytes for sort keys, which stores compare byte by byte.

/// Returns bytes that sort as the numbers do: big-endian, with the sign bit flipped.
#[must_use]
pub const fn ascending(number: i64) -> [u8; 8] {
    (number ^ i64::MIN).to_be_bytes()
}

/// Reads a number that [`ascending`] has spelt.
#[must_use]
pub const fn of_ascending(bytes: [u8; 8]) -> i64 {
    i64::from_be_bytes(bytes) ^ i64::MIN
}

/// Returns bytes that sort from the greatest number to the least.
#[must_use]
pub const fn descending(number: i64) -> [u8; 8] {
    (number ^ i64::MAX).to_be_bytes()
}

/// Reads a number that [`descending`] has spelt.
#[must_use]
pub const fn of_descending(bytes: [u8; 8]) -> i64 {
    i64::from_be_bytes(bytes) ^ i64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_as_their_bytes_and_are_read_back() {
        let numbers = [i64::MIN, -1, 0, 1, 1_800_000_000_437, i64::MAX];
        assert!(numbers.map(ascending).is_sorted());
        assert!(numbers.map(descending).is_sorted_by(|one, next| one > next));
        for number in numbers {
            assert_eq!(of_ascending(ascending(number)), number);
            assert_eq!(of_descending(descending(number)), number);
        }
        // Stored rows have these bytes.
        assert_eq!(ascending(-1), [0x7f, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(ascending(5), [0x80, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(descending(5), [0x7f, 255, 255, 255, 255, 255, 255, 250]);
        assert_eq!(descending(-1), [0x80, 0, 0, 0, 0, 0, 0, 0]);
    }
}
