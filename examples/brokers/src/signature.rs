//! Signatures of webhooks, in the shape that payment services use: `t=1792657577,v1=5257a869…`,
//! where v1 is the HMAC-SHA256 of `t.body`.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The reason why a delivery is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The header is not `t=SECONDS,v1=HEX[,v1=HEX]`.
    Malformed,
    /// None of its signatures is the sender's.
    Forged,
    /// It was signed too long ago, or too far ahead: perhaps an attacker has recorded it, and
    /// replays it.
    OutOfTime {
        /// The difference between its time and ours.
        off_by: Duration,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed => f.write_str("expected a signature `t=SECONDS,v1=HEX`"),
            Refusal::Forged => f.write_str("the signature is not that of the body"),
            Refusal::OutOfTime { off_by } => write!(f, "signed {} s away from now", off_by.as_secs()),
        }
    }
}

impl std::error::Error for Refusal {}

/// Checks that the sender has signed this body, not longer ago than the tolerance. While a secret
/// is changed there may be two signatures; one must be right.
///
/// # Errors
///
/// [`Refusal`]. [`OutOfTime`](Refusal::OutOfTime) is returned only for a delivery with a valid
/// signature.
pub fn verify(secret: &[u8], header: &str, body: &[u8], now: SystemTime, tolerance: Duration) -> Result<(), Refusal> {
    let (mut signed_at, mut signatures) = (None, Vec::new());
    for part in header.split(',') {
        match part.trim().split_once('=') {
            Some(("t", seconds)) => signed_at = seconds.parse::<u32>().ok().map(|number| (number, seconds)),
            Some(("v1", hex)) => signatures.extend(bytes(hex)),
            // Other versions of the signature are ignored.
            Some(_) => {}
            None => return Err(Refusal::Malformed),
        }
    }
    let (seconds, as_signed) = signed_at.filter(|_| !signatures.is_empty()).ok_or(Refusal::Malformed)?;
    let expected = mac(secret, as_signed, body);
    // The comparison takes constant time, or its duration would tell how much of a guess is right.
    if !signatures.iter().any(|signature| expected.clone().verify_slice(signature).is_ok()) {
        return Err(Refusal::Forged);
    }
    let then = UNIX_EPOCH + Duration::from_secs(seconds.into());
    let off_by = now.duration_since(then).unwrap_or_else(|ahead| ahead.duration());
    if off_by <= tolerance { Ok(()) } else { Err(Refusal::OutOfTime { off_by }) }
}

/// Returns the header with which a sender signs a body.
pub fn sign(secret: &[u8], body: &[u8], now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().to_string();
    let signature = mac(secret, &seconds, body).finalize().into_bytes();
    let hex: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={seconds},v1={hex}")
}

fn mac(secret: &[u8], seconds: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(seconds.as_bytes());
    mac.update(b".");
    mac.update(body);
    mac
}

/// Decodes hexadecimal digits; `None` if they are invalid.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = hex.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"whsec_test";
    const BODY: &[u8] = br#"{"id":"evt-1"}"#;
    const TOLERANCE: Duration = Duration::from_secs(300);
    /// A signature made by another implementation:
    /// `printf '1792657577.{"id":"evt-1"}' | openssl dgst -sha256 -hmac whsec_test`.
    const SIGNATURE: &str = "a9f439ff16118985a3adbe05cdec51e4372e7e902feda43741c23524c77f221e";

    fn verified(header: &str, body: &[u8], seconds: u64) -> Result<(), Refusal> {
        verify(SECRET, header, body, UNIX_EPOCH + Duration::from_secs(seconds), TOLERANCE)
    }

    #[test]
    fn what_the_sender_signed_is_believed() {
        let header = format!("t=1792657577,v1={SIGNATURE}");
        assert_eq!(sign(SECRET, BODY, UNIX_EPOCH + Duration::from_secs(1_792_657_577)), header);
        assert_eq!(verified(&header, BODY, 1_792_657_577), Ok(()));
        assert_eq!(verified(&format!("t=1792657577, v0=zz, v1=00ff, v1={SIGNATURE}"), BODY, 1_792_657_577), Ok(()));
    }

    #[test]
    fn what_was_changed_on_the_way_is_not() {
        let header = format!("t=1792657577,v1={SIGNATURE}");
        assert_eq!(verified(&header, br#"{"id":"evt-2"}"#, 1_792_657_577), Err(Refusal::Forged));
        assert_eq!(verified(&header.replace("577,", "578,"), BODY, 1_792_657_577), Err(Refusal::Forged));
        assert_eq!(verify(b"other", &header, BODY, UNIX_EPOCH, TOLERANCE), Err(Refusal::Forged));
        for length in 0..64 {
            let cut = format!("t=1792657577,v1={}", &SIGNATURE[..length]);
            assert!(verified(&cut, BODY, 1_792_657_577).is_err(), "{cut}");
        }
    }

    #[test]
    fn what_was_recorded_and_is_played_back_is_not() {
        let header = format!("t=1792657577,v1={SIGNATURE}");
        assert_eq!(verified(&header, BODY, 1_792_657_577 + 300), Ok(()));
        assert_eq!(verified(&header, BODY, 1_792_657_577 - 300), Ok(()));
        let off_by = Duration::from_secs(301);
        assert_eq!(verified(&header, BODY, 1_792_657_577 + 301), Err(Refusal::OutOfTime { off_by }));
        assert_eq!(verified(&header, BODY, 1_792_657_577 - 301), Err(Refusal::OutOfTime { off_by }));
    }

    #[test]
    fn what_is_no_signature_is_malformed() {
        for header in ["", "t=1", "v1=00", "t=,v1=00", "t=-1,v1=00", "t=1,v1=0", "t=1,v1=0g", "t=1,v1=é", "t,v1=00"] {
            assert_eq!(verified(header, BODY, 1), Err(Refusal::Malformed), "{header:?}");
        }
    }
}
