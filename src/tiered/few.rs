//! One or many: most callers ask about one id, and that should not take a vector.

use std::vec;

/// One thing, or a vector of them.
#[derive(Debug)]
pub(super) enum Few<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> Few<T> {
    pub(super) fn len(&self) -> usize {
        match self {
            Few::One(_) => 1,
            Few::Many(all) => all.len(),
        }
    }

    pub(super) fn as_slice(&self) -> &[T] {
        match self {
            Few::One(one) => std::slice::from_ref(one),
            Few::Many(all) => all,
        }
    }

    /// So many of what comes, in the same form as something else is.
    pub(super) fn take(count: usize, from: &mut impl Iterator<Item = T>) -> Self {
        if count == 1
            && let Some(one) = from.next()
        {
            return Few::One(one);
        }
        Few::Many(from.take(count).collect())
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        match self {
            Few::One(one) => Some(one).into_iter().chain(Vec::new()),
            Few::Many(all) => None.into_iter().chain(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_many_come_out_as_they_went_in() {
        let mut numbers = 0..10;
        for count in [0, 1, 3] {
            let expected: Vec<i32> = numbers.clone().take(count).collect();
            let few = Few::take(count, &mut numbers);
            assert_eq!((few.len(), few.as_slice()), (count, &expected[..]));
            assert_eq!(few.into_iter().collect::<Vec<_>>(), expected);
        }
    }
}
