//! Events that are counted, each named once.

/// Defines events, their names in metrics, the numbers of them so far, and what users read of
/// these: a field for each event, and those of current figures, which are zero.
#[doc(hidden)]
#[macro_export]
macro_rules! counted {
    (
        $(#[$about:meta])* $stats:ident,
        $visible:vis $event:ident in $counts:ident {
            $($(#[$what:meta])* $field:ident: $variant:ident,)*
        }
        $($(#[$shows:meta])* $figure:ident,)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $stats {
            $($(#[$what])* pub $field: u64,)*
            $($(#[$shows])* pub $figure: u64,)*
        }

        /// An event that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visible enum $event {
            $(#[doc = concat!("See [`", stringify!($field), "`](", stringify!($stats), "::", stringify!($field), ").")] $variant,)*
        }

        #[allow(dead_code, reason = "only metrics have names, and not all events have metrics")]
        impl $event {
            /// All of them.
            $visible const ALL: [Self; [$(stringify!($field)),*].len()] = [$(Self::$variant),*];

            /// Returns its name in metrics.
            $visible fn name(self) -> &'static str {
                [$(stringify!($field)),*][self as usize]
            }
        }

        /// The numbers of events so far.
        #[derive(Debug, Default)]
        $visible struct $counts([std::sync::atomic::AtomicU64; $event::ALL.len()]);

        impl $counts {
            /// Counts an event that has happened so many times.
            $visible fn add(&self, event: $event, n: u64) {
                // Relaxed: counters order nothing.
                self.0[event as usize].fetch_add(n, std::sync::atomic::Ordering::Relaxed);
            }

            /// Returns the numbers so far.
            $visible fn stats(&self) -> $stats {
                let of = |event: $event| self.0[event as usize].load(std::sync::atomic::Ordering::Relaxed);
                $stats { $($field: of($event::$variant),)* $($figure: 0,)* }
            }
        }
    };
}
