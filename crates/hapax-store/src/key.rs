//! The name of a record: a scope, and an id as stores keep it.

use super::error::{ErrorKind, StoreError};
use hapax::Key;
use sha2::{Digest as _, Sha256, Sha384};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A namespace of ids, for example of a consumer or a tenant. The same id in two scopes is two ids.
///
/// ```
/// use hapax_store::Scope;
///
/// let orders = Scope::new("orders")?;
/// assert_eq!(orders.as_str(), "orders");
/// assert!(Scope::new("two\nlines").is_err());
/// # Ok::<(), hapax_store::StoreError>(())
/// ```
///
/// Cloning one costs a reference count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(Arc<str>);

impl Scope {
    /// The length of the longest name, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Creates the scope with this name: any text of up to 128 bytes without control characters;
    /// the empty one, too.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] says what is wrong with the name.
    pub fn new(name: &str) -> Result<Self, StoreError> {
        if name.len() > Self::MAX_BYTES {
            let wrong = format!("a scope's name has at most {} bytes, this one has {}", Self::MAX_BYTES, name.len());
            return Err(StoreError::new(ErrorKind::Misconfigured, "scope", wrong));
        }
        if let Some(control) = name.chars().find(|c| c.is_control()) {
            let wrong = format!("a scope's name has no control characters, {name:?} has {control:?}");
            return Err(StoreError::new(ErrorKind::Misconfigured, "scope", wrong));
        }
        Ok(Scope(name.into()))
    }

    /// Creates the scope of this name beneath this one: both names, with a slash between them; if
    /// one of them is empty, the other one.
    ///
    /// ```
    /// use hapax_store::Scope;
    ///
    /// let shop = Scope::new("shop")?;
    /// assert_eq!(shop.beneath("billing")?.as_str(), "shop/billing");
    /// assert_eq!(Scope::default().beneath("billing")?.as_str(), "billing");
    /// # Ok::<(), hapax_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`new`](Scope::new).
    pub fn beneath(&self, name: &str) -> Result<Self, StoreError> {
        match (self.as_str(), name) {
            ("", name) => Scope::new(name),
            (_, "") => Ok(self.clone()),
            (above, name) => Scope::new(&format!("{above}/{name}")),
        }
    }

    /// Returns the names of this scope and of those that it is beneath: `a/b/c`, `a/b`, `a`.
    pub(crate) fn with_those_above(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(self.as_str()), |name| Some(name.rsplit_once('/')?.0))
    }

    /// Creates a scope that no user can name: its name begins with a control character.
    pub(crate) fn reserved(name: &str) -> Self {
        Scope(format!("\u{1}{name}").into())
    }

    /// Returns true if the scope is hapax's own.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with('\u{1}')
    }

    /// Reads a scope from its stored name: any name that [`as_str`](Scope::as_str) has returned,
    /// including hapax's own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if no scope has this name.
    pub fn from_stored(name: &str) -> Result<Self, StoreError> {
        let user = name.strip_prefix('\u{1}').unwrap_or(name);
        if user.len() <= Self::MAX_BYTES && !user.chars().any(char::is_control) {
            Ok(Scope(name.into()))
        } else {
            Err(StoreError::new(ErrorKind::Corrupt, "scope", format!("no scope has the name {name:?}")))
        }
    }

    /// Returns the scope's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Scope {
    /// Returns the scope without a name.
    fn default() -> Self {
        Scope("".into())
    }
}

/// An id as stores keep it: unchanged up to 47 bytes; a longer one as the 48 bytes of its SHA-384.
///
/// ```
/// use hapax_store::StoredId;
///
/// assert_eq!(StoredId::new(b"order-17").as_bytes(), b"order-17");
/// assert_eq!(StoredId::new(&[7; 200]).as_bytes().len(), 48);
/// ```
///
/// No short id is as long as a digest. So a party that chooses ids cannot make one that is taken
/// for another one without breaking SHA-384.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredId {
    bytes: [u8; StoredId::MAX_BYTES],
    len: u8,
}

impl StoredId {
    /// The length of the longest stored id, which is that of a digest.
    pub const MAX_BYTES: usize = 48;

    /// Converts an id into its stored form.
    #[inline]
    pub fn new(id: &[u8]) -> Self {
        let mut bytes = [0; Self::MAX_BYTES];
        if let Some(start) = bytes[..Self::MAX_BYTES - 1].get_mut(..id.len()) {
            start.copy_from_slice(id);
            return StoredId { bytes, len: id.len() as u8 };
        }
        StoredId { bytes: Sha384::digest(id).into(), len: Self::MAX_BYTES as u8 }
    }

    /// Returns an id of a group, for example of a tenant: a byte 255, 14 bytes of the group's
    /// SHA-256, and the 32 bytes of the SHA-256 of both. Stores treat it like any other id; a store
    /// with a budget can tell how much of it each group uses.
    ///
    /// ```
    /// use hapax_store::StoredId;
    ///
    /// let id = |group: &str, id: &str| StoredId::of_group(group.as_bytes(), id.as_bytes());
    /// assert_eq!(id("alice", "k-1").group(), id("alice", "k-2").group());
    /// assert_ne!(id("alice", "k-1").group(), id("bob", "k-1").group());
    /// assert_eq!(StoredId::new(id("alice", "k-1").as_bytes()), id("alice", "k-1"));
    /// ```
    pub fn of_group(group: &[u8], id: &[u8]) -> Self {
        let mut all = Sha256::new();
        all.update((group.len() as u64).to_le_bytes());
        all.update(group);
        all.update(id);
        let mut bytes = [0; Self::MAX_BYTES];
        bytes[0] = Self::OF_GROUP;
        bytes[1..15].copy_from_slice(&Sha256::digest(group)[..14]);
        bytes[15..47].copy_from_slice(&all.finalize());
        StoredId { bytes, len: 47 }
    }

    /// Returns the digest of the group of an id that was made [for a group](StoredId::of_group).
    pub fn group(&self) -> Option<[u8; 14]> {
        let is_of_group = self.len == 47 && self.bytes[0] == Self::OF_GROUP;
        is_of_group.then(|| std::array::from_fn(|i| self.bytes[i + 1]))
    }

    /// The first byte of an id of a group. No text begins with it.
    const OF_GROUP: u8 = 255;

    /// Reads a stored id.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if it is longer than any stored id.
    pub fn from_stored(kept: &[u8]) -> Result<Self, StoreError> {
        let mut bytes = [0; Self::MAX_BYTES];
        match bytes.get_mut(..kept.len()) {
            Some(start) => start.copy_from_slice(kept),
            None => {
                let wrong = format!("an id is kept in at most {} bytes, not {}", Self::MAX_BYTES, kept.len());
                return Err(StoreError::new(ErrorKind::Corrupt, "id", wrong));
            }
        }
        Ok(StoredId { bytes, len: kept.len() as u8 })
    }

    /// Returns the stored bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

/// The beginning of the text of a digest, which is stored instead of a long id.
const DIGEST: &str = "sha384:";

/// Prints the id as [`Key::describe`] does, and the digest of a long one as `sha384:` and its
/// hexadecimal digits.
///
/// ```
/// use hapax::Key;
/// use hapax_store::StoredId;
///
/// let id = StoredId::new(Key::new().text("orders").int(9017).as_ref());
/// assert_eq!(id.to_string(), "orders/9017");
/// assert_eq!("orders/9017".parse::<StoredId>()?, id);
///
/// let long = StoredId::new(&[7; 200]);
/// assert!(long.to_string().starts_with("sha384:"));
/// assert_eq!(long.to_string().parse::<StoredId>()?, long);
/// # Ok::<(), hapax_store::StoreError>(())
/// ```
impl fmt::Display for StoredId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match usize::from(self.len) {
            Self::MAX_BYTES => {
                f.write_str(DIGEST)?;
                self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            _ => f.write_str(&Key::describe(self.as_bytes())),
        }
    }
}

impl fmt::Debug for StoredId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads what `Display` prints. The text of a long id is that of its digest as well.
impl FromStr for StoredId {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let wrong = |why: String| StoreError::new(ErrorKind::Misconfigured, "id", why);
        let Some(digits) = text.strip_prefix(DIGEST) else {
            return match Key::id_of(text) {
                Ok(id) => Ok(StoredId::new(&id)),
                Err(error) => Err(wrong(format!("{text:?} is no id: {error}"))),
            };
        };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        match pairs.iter().map(byte).collect::<Option<Vec<u8>>>() {
            Some(bytes) if bytes.len() == Self::MAX_BYTES && rest.is_empty() => Self::from_stored(&bytes),
            _ => Err(wrong(format!("expected 96 hexadecimal digits after {DIGEST}, got {digits:?}"))),
        }
    }
}

/// The name of a record: scope and id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    /// The namespace.
    pub scope: Scope,
    /// The id within it.
    pub id: StoredId,
}

impl RecordKey {
    /// Creates the key of an id in a scope.
    #[inline]
    pub fn new(scope: &Scope, id: impl AsRef<[u8]>) -> Self {
        RecordKey { scope: scope.clone(), id: StoredId::new(id.as_ref()) }
    }

    /// Returns scope and id in one string of bytes, which is different for every key: the scope, a
    /// zero, the id.
    pub fn to_stored(&self) -> Vec<u8> {
        [self.scope.as_str().as_bytes(), &[0], self.id.as_bytes()].concat()
    }

    /// Reads a key from such a string.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if the bytes are not a key.
    pub fn from_stored(stored: &[u8]) -> Result<Self, StoreError> {
        let wrong =
            || StoreError::new(ErrorKind::Corrupt, "key", format!("no record has the key {}", stored.escape_ascii()));
        let zero = stored.iter().position(|&byte| byte == 0).ok_or_else(wrong)?;
        let scope = std::str::from_utf8(&stored[..zero]).map_err(|_| wrong())?;
        Ok(RecordKey { scope: Scope::from_stored(scope)?, id: StoredId::from_stored(&stored[zero + 1..])? })
    }
}

/// Prints the scope and the id, as `scope/id`; see [`StoredId`]'s own text. It has no line break.
impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Key::describe(self.scope.as_str()), self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_kept_as_it_is_or_as_a_digest_never_as_something_that_another_could_be() {
        for len in [0, 1, 36, 47] {
            let id = vec![b'x'; len];
            assert_eq!(StoredId::new(&id).as_bytes(), id);
        }
        let digest = StoredId::new(&[b'x'; 48]);
        assert_eq!(digest.as_bytes().len(), 48);
        assert_ne!(StoredId::new(digest.as_bytes()), digest, "whoever sends a digest sends another id");
        assert_eq!(StoredId::from_stored(digest.as_bytes()).unwrap(), digest);
        assert_eq!(StoredId::from_stored(&[0; 49]).unwrap_err().kind(), ErrorKind::Corrupt);
        // SHA-384("abc…"): the first bytes of a published vector (FIPS 180-4, 112 bytes).
        let published = b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
        assert_eq!(StoredId::new(published).as_bytes()[..8], [0x09, 0x33, 0x0c, 0x33, 0xf7, 0x11, 0x47, 0xe8]);
    }

    #[test]
    fn ids_are_printed_and_read_back() {
        let key = Key::new().text("orders").int(3).null().clone();
        let ids = [b"order-17".as_slice(), b"", b"a/b\n", &[0; 47], &[255; 48], key.as_ref(), b"sha384:00", b"17"];
        for id in ids.map(StoredId::new) {
            assert_eq!(id.to_string().parse::<StoredId>().unwrap(), id, "{id}");
        }
        assert_eq!(StoredId::new(key.as_ref()).to_string(), "orders/3/null");
        assert_eq!(format!("{:?}", StoredId::new(b"a\nb")), r"a\nb");
        let orders = RecordKey::new(&Scope::new("shop/orders").unwrap(), "17");
        assert_eq!(orders.to_string(), r#""shop/orders"/17"#);
        assert_eq!(RecordKey::new(&Scope::default(), [0]).to_string(), r#"""/null/"#);
        for wrong in ["", "a//b", "sha384:00", "sha384:", &format!("sha384:{}", "+1".repeat(48)), "\"a"] {
            assert_eq!(wrong.parse::<StoredId>().unwrap_err().kind(), ErrorKind::Misconfigured, "{wrong}");
        }
    }

    #[test]
    fn ids_of_a_group_tell_the_group_and_differ_by_both() {
        let pairs = [("", ""), ("", "a"), ("a", ""), ("a", "b"), ("ab", "c"), ("a", "bc")];
        let ids = pairs.map(|(group, id)| StoredId::of_group(group.as_bytes(), id.as_bytes()));
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), pairs.len());
        assert!(
            ids[2].group() == ids[3].group() && ids[3].group() == ids[5].group() && ids[3].group() != ids[4].group()
        );
        assert_eq!(StoredId::new(&[b'x'; 47]).group(), None);
        assert_eq!(StoredId::new(&[255; 100]).group(), None);
    }

    #[test]
    fn keys_are_stored_without_ambiguity() {
        let keys = ["", "a", "käse"].map(|scope| Scope::new(scope).unwrap());
        for scope in &keys {
            for id in [b"".as_slice(), b"\0", b"a\0b", &[255; 100]] {
                let key = RecordKey::new(scope, id);
                assert_eq!(RecordKey::from_stored(&key.to_stored()).unwrap(), key);
            }
        }
        for wrong in [b"".as_slice(), b"abc", b"\xff\0a", &[b'x'; 200]] {
            assert_eq!(RecordKey::from_stored(wrong).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn scopes_have_others_beneath_them() {
        let above = |name: &str| Scope::new(name).unwrap().with_those_above().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(above("a/b/c"), ["a/b/c", "a/b", "a"]);
        assert_eq!((above(""), above("a")), (vec![String::new()], vec!["a".to_owned()]));
        let a = Scope::new("a").unwrap();
        assert_eq!((a.beneath("").unwrap(), Scope::default().beneath("a").unwrap()), (a.clone(), a.clone()));
        assert_eq!(a.beneath("b/1").unwrap().as_str(), "a/b/1");
        for wrong in ["x".repeat(127), "\n".to_owned()] {
            assert_eq!(a.beneath(&wrong).unwrap_err().kind(), ErrorKind::Misconfigured, "{wrong:?}");
        }
    }

    #[test]
    fn scopes_are_text_of_one_line() {
        assert_eq!(Scope::new("").unwrap(), Scope::default());
        assert!(Scope::new("käse/{a}:b").is_ok());
        assert_eq!(Scope::new(&"x".repeat(129)).unwrap_err().kind(), ErrorKind::Misconfigured);
        let owner = Scope::reserved("owner");
        assert!(Scope::new(owner.as_str()).is_err());
        assert_eq!(Scope::from_stored(owner.as_str()).unwrap(), owner);
        assert!(owner.is_reserved() && !Scope::default().is_reserved());
        assert!(Scope::from_stored("a\u{1}").is_err());
    }
}
