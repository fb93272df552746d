//! The form in which a partition has its ids: the digest of each, and the number of its line as a
//! distance from the one before. Pure.

/// The bytes of a record: a distance of 16 bits, and a digest.
pub const RECORD_BYTES: usize = 18;

/// The distance of a record that has no digest, but a distance in its place.
const FAR: u16 = u16::MAX;

/// Returns the records of an id whose line is this far behind the one before: first one for a
/// distance that is too long for it, if it is.
pub fn encode(distance: u64, digest: u128) -> (Option<[u8; RECORD_BYTES]>, [u8; RECORD_BYTES]) {
    match u16::try_from(distance) {
        Ok(near) if near < FAR => (None, record(near, digest)),
        _ => (Some(record(FAR, distance.into())), record(0, digest)),
    }
}

fn record(distance: u16, digest: u128) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..2].copy_from_slice(&distance.to_le_bytes());
    record[2..].copy_from_slice(&digest.to_le_bytes());
    record
}

/// Reads a record. Returns the distance of its line, and the digest if it has one.
#[inline]
pub fn decode(record: &[u8; RECORD_BYTES]) -> (u64, Option<u128>) {
    let [low, high, digest @ ..] = *record;
    let (distance, digest) = (u16::from_le_bytes([low, high]), u128::from_le_bytes(digest));
    if distance == FAR { (digest as u64, None) } else { (distance.into(), Some(digest)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distance_comes_back() {
        let near = [0, 1, 255, 256, u64::from(FAR) - 1];
        for distance in near.into_iter().chain([u64::from(FAR), 65_536, 1 << 40, u64::MAX]) {
            for digest in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef << 60] {
                let (far, last) = encode(distance, digest);
                assert_eq!(far.is_none(), near.contains(&distance));
                let far = far.map_or(0, |far| {
                    let (far, none) = decode(&far);
                    assert_eq!(none, None);
                    far
                });
                let (near, read) = decode(&last);
                assert_eq!((far + near, read), (distance, Some(digest)));
            }
        }
    }
}
