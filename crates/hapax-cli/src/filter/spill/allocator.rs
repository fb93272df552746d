//! Long buffers go back to the system as soon as they are freed.

/// Sees to that, before other threads are started.
///
/// glibc takes the first long buffer that is freed as a sign that there will be more of its size:
/// from then on it keeps what is freed, in each thread's arena, so that a line of 16 MB takes up to
/// four times its size. A threshold that was set once stays. Other allocators keep none, or decide
/// by themselves.
pub fn give_back_long_buffers() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // Much more than blocks of ordinary lines have, so these are as fast as before.
        const LONG_BYTES: libc::c_int = 1 << 20;
        // SAFETY: it sets a number of the allocator's, under the allocator's lock.
        let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LONG_BYTES) };
    }
}
