//! Tests of the function itself: what it must be in every version, and on every processor.

use super::*;

fn bits(digest: Digest) -> u128 {
    digest.into()
}

/// Returns an id of this many bytes.
fn id(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 37 + len) as u8).collect()
}

#[test]
fn random_keys_differ() {
    let [one, other] = [Digester::random().unwrap(), Digester::random().unwrap()];
    assert_ne!(one.key, other.key);
    assert!(one.key.bits >> 64 != 0 && one.key.bits as u64 != 0, "all 128 bits are drawn");
    assert_ne!(one.digest("id"), other.digest("id"));
}

#[test]
fn all_bits_of_the_key_matter() {
    for len in [0, 8, 15, 16, 17, 36, 79, 80, 300] {
        let [id, digest] = [id(len), id(len)];
        let digest = Digester::with_key([0; 16]).digest(digest);
        for bit in 0..128 {
            let other = Digester::with_key((1_u128 << bit).to_le_bytes()).digest(&id);
            assert!(other.place != digest.place && other.mark != digest.mark, "{len} bytes, bit {bit}");
        }
    }
}

#[test]
fn the_processor_and_plain_rust_agree_on_all_lengths() {
    let digester = Digester::with_seed(5);
    for len in (0..if cfg!(miri) { 100 } else { 700 }).chain([4_096]) {
        let id = id(len);
        assert_eq!(bits(digester.digest(&id)), digester.keys.digest_portably(&id), "{len} bytes");
    }
}

/// Checks the values of digests. Journals contain such digests: another function
/// takes another version of their format. The values are those of another implementation, in Python
/// over the AES of OpenSSL.
#[test]
fn it_is_the_same_in_every_version() {
    let digester = Digester::with_key(*b"sixteen bytes ok");
    let digests = [0, 3, 8, 15, 16, 17, 31, 32, 79, 80, 81, 1_000].map(|len| bits(digester.digest(id(len))));
    let expected = [
        0x37b209e9d629fb2e86a566e9b509d103,
        0x48d5009094bb57097544dfebffd3a02f,
        0x9cb929015a058b98ca00bb0092c64851,
        0xf33176e61c8ed96efa8933c88f7daad2,
        0x68d236ae7ca51f493c1ea6d1b9084f47,
        0xdfd46ed32eeb51c6814f55ba6bc51e9e,
        0xcf6ecdb342b05cb2418c1ca71395f179,
        0xe0e0980c5a7521f8ff7296908811848b,
        0x3c07e3048f0dd7d4870cb08d1346ff5a,
        0x43066ee8141e8e656b11f2839fd69233,
        0xbce5e38aaf4242ccf55b164c6e2a8eb0,
        0xdeab623632fd8afc97788714e96af36b,
    ];
    assert_eq!(digests, expected);
    assert_eq!(bits(digester.scoped("orders").digest("id")), 0x142349392a944edf045dcc3e318f36be);
}

#[test]
fn trusted_ids_have_xxh3_128() {
    // Published test vector: XXH3-128 of the empty input, seed 0.
    let empty = Digest::from(0x99aa06d3014798d86001c324468d497f_u128);
    assert_eq!(Digester::trusted(0).digest([]), empty);
    assert_ne!(Digester::with_seed(0).digest([]), empty);
    assert_eq!(Digester::trusted(3).scoped("a").key.kind, DigestKind::Trusted);
}

#[test]
fn scopes_are_namespaces() {
    for digester in [Digester::with_seed(1), Digester::trusted(1)] {
        let of = |scope| digester.scoped(scope).digest("id");
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        assert_ne!(of(""), digester.digest("id"));
        // A scope is no prefix of the id.
        assert_ne!(of("a"), digester.digest("aid"));
        // Nor does an id show the key of a scope.
        assert_ne!(digester.scoped("a").key.bits, bits(digester.digest("a")));
    }
}

#[test]
fn no_key_is_printed() {
    let digester = Digester::with_seed(0x1234_5678_9abc_def0);
    let key = DigestKey { kind: DigestKind::Keyed, bits: 0x1234_5678_9abc_def0 };
    let printed = format!("{digester:?} {digester:#?} {key:?} {:?}", crate::Dedup::builder().key([0xa5; 16]));
    for secret in ["1234", "1311768467463790320", "a5", "165"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

#[test]
fn the_halves_are_uniform_and_independent() {
    // 2^16 consecutive integers in 16 x 16 cells by the top bits of both halves: chi-square with
    // 255 degrees of freedom has mean 255 and deviation 22.6; 400 is 6.4 deviations away.
    let digester = Digester::with_seed(3);
    let mut cells = [0_u32; 256];
    for i in 0_u64..if cfg!(miri) { 1 << 10 } else { 1 << 16 } {
        let digest = digester.digest(i.to_le_bytes());
        cells[(digest.place >> 60 << 4 | digest.mark >> 60) as usize] += 1;
    }
    let expected = f64::from(cells.iter().sum::<u32>()) / 256.0;
    let chi: f64 = cells.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
    assert!(chi < 400.0, "chi-square {chi}");
}
