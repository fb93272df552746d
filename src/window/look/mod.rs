//! Looks at a bucket: all slots are compared at once, by the vectors that the processor has.

#[cfg(all(target_arch = "x86_64", not(modelled)))]
pub(super) mod avx2;
#[cfg(all(target_arch = "x86_64", not(modelled)))]
pub(super) mod avx512;
#[cfg(all(target_arch = "aarch64", target_endian = "little", not(modelled)))]
pub(super) mod neon;
pub(super) mod sweep;
pub(super) mod view;

#[cfg(all(target_arch = "x86_64", not(modelled)))]
pub(crate) use avx2::Avx2;

/// A proof that there is AVX2, where there is none.
#[cfg(not(all(target_arch = "x86_64", not(modelled))))]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Avx2 {}
