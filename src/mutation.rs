//! The rules of the protocols, by name, so that a model can leave one out and show that it would
//! notice. In a build all of them hold, and asking costs nothing.

/// A rule that some answer depends on. The purpose of each is in docs/design: window.md,
/// claims.md, history.md, long-memory.md and looks.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(any(test, modelled)), allow(dead_code, reason = "only models name the rules that they leave out"))]
pub(crate) enum Rule {
    /// A view whose versions are no ring proves nothing.
    ValidView,
    /// The slot to be overwritten still has the version that the view gave it.
    VictimVersion,
    /// An insertion succeeds only if its slot has not changed.
    Compare,
    /// Insertions go to the head of the ring, not to the first slot that is free.
    Ring,
    /// An entry that must be kept moves to its alternate bucket.
    Relocate,
    /// The entry moves before it is overwritten, not after.
    RelocateFirst,
    /// A relocation looks at its source again after it has looked at its target.
    SourceAgain,
    /// The new entry is flagged if the entry that it displaced has moved.
    Flag,
    /// The new entry inherits the flag of the entry that it displaced.
    InheritFlag,
    /// A flag on an away entry counts at any age.
    AwayFlag,
    /// A flag counts for a grace longer than the entry that it protects.
    FlagGrace,
    /// The home bucket is looked at before the alternate.
    HomeFirst,
    /// Entries are kept for a grace longer than they are live.
    KeepGrace,
    /// A dropped entry is counted if it must be kept, not only if it is live.
    CountKept,
    /// A match is one of tag and place.
    MatchPlace,
    /// A caller that is too far behind the others' time starts over.
    Overtaken,
    /// A refresh never makes an entry older.
    RefreshLater,
    /// A slot is reserved for a copy before it is seen whether the original still is there.
    ReserveFirst,
    /// Forgetting cancels what is reserved.
    CancelReserved,
    /// Nothing is refreshed by a new entry while everything is being forgotten.
    RestWhileCleared,
    /// A bucket that is never valid again is repaired.
    Repair,
    /// A shard is swept before it is used.
    SweepFirst,
    /// A sweep clears nothing once another has completed.
    SweepWhileDue,
    /// A caller that lost the race for a sweep checks whether the winner's sweep suffices.
    SweepAgain,
    /// One word says that no shard is due only when none is.
    AllSwept,
    /// A caller that sees that word sees what the sweeps have cleared. (Only loom can tell.)
    SweptInOrder,
    /// Looking at a bucket synchronizes with the thread that wrote its contents. (Only loom can
    /// tell.)
    Acquire,
    /// Older tables are looked at.
    LookOlder,
    /// A caller that has inserted looks whether the table still is the newest.
    NewestAgain,
    /// The look at the roster is ordered after the insertion, and the looks at older tables after
    /// the look at which table is the newest. (Only loom can tell.)
    NewestInOrder,
    /// A caller that inserts into a newer table as well does not count the entry that it left in
    /// the older one.
    OwnEntry,
    /// A caller that was not the first in a newer table looks whether what it left in the older one
    /// may have been an answer to others.
    OwnStillThere,
    /// With refresh, an entry of a table that was the newest just before is refreshed where it is,
    /// not copied.
    SpareYoung,
    /// A table is retired only when a grace has passed since its last entry expired.
    RetireLate,
    /// Forgetting cleans newer tables before older ones, and the newest one again at the end.
    ForgetNewestFirst,
    /// Forgetting starts over if a table was started meanwhile.
    ForgetAgain,
    /// A table that is used again starts at another version than it had before.
    VersionOfLife,
    /// A claim announces itself before it looks at the window.
    AnnounceFirst,
    /// The look at the window is ordered after the announcement. (Only loom can tell.)
    AnnounceInOrder,
    /// The bits of a shard's ids have those of its map, also when they are made anew.
    FilterKeeps,
    /// A claim looks at the window.
    ClaimLooks,
    /// A check that has inserted looks for claims.
    ConfirmFresh,
    /// A check that has found an id looks for claims.
    ConfirmDuplicate,
    /// A check that has inserted a claimed id takes the insertion back.
    TakeBack,
    /// An id that was taken back is kept for others that have seen it, or whose insertion went with
    /// it.
    KeepTakenBack,
    /// A claim that completes is kept for a check that has inserted its id meanwhile.
    KeepContested,
    /// A claim that completes is in the window before its shard says that nothing is claimed.
    DoneFirst,
    /// An id that a check is about to accept is not forgotten before it is accepted.
    ForgetLater,
    /// Only the token's holder ends a claim.
    TokenHolds,
    /// A generation of the history is cleared before it becomes the current one.
    ClearFirst,
    /// Only one caller clears a generation.
    ClearOnce,
    /// A caller that inserts while a generation is cleared first puts off its beginning.
    PutOff,
    // Where parts meet (src/simulation):
    /// An id that is read again counts from its latest acceptance.
    LatestAcceptance,
    /// The clock goes on from what a journal knows, by what has passed since.
    GoOn,
    /// The journal has exact times, not those of a window's tick.
    ExactTimes,
    /// Appending ends when the journal has failed.
    FailureEndsAppend,
    /// The journal records that everything was forgotten before the memory does.
    ClearedFirst,
    /// A file of the journal is kept until a segment was made of it.
    SealedFirst,
    /// An id that was forgotten while it was asked for is inserted again.
    InsertAgain,
    /// Segments that are forgotten answer nothing, whether or not the disk takes that.
    VoidAtOnce,
    /// An id that the window may have forgotten before it was sealed is in doubt.
    BehindIsInDoubt,
    /// An id is forgotten in the window while nobody tells the journal of checks.
    ForgottenAsOne,
    /// An id that was forgotten after a check has accepted it, or extended its stay, is not
    /// recorded after that.
    ForgottenIsNotRecorded,
    /// A journal that was reopened says how time is counted, though nothing else is written.
    TimeIsSaid,
    /// A journal that was reopened notes which of its blocks were lost.
    LossIsMarked,
    /// A flush checks whether the journal still is where it was.
    LookForDirectory,
    /// Blocks and files that a journal misses are noticed.
    GapsAreKnown,
    /// Claims that were handed over to be completed are, whatever the rest of the batch does.
    CompleteOnUnwind,
    /// Reading moves no time.
    ReadingMovesNothing,
    /// Events with an impossible time are refused.
    RefuseAhead,
    /// A generation of the history takes insertions for one horizon, no longer.
    OneHorizon,
    /// Between two checkpoints nothing becomes durable.
    HeldBack,
    /// A checkpoint and all that was accepted before it become durable as one.
    CheckpointAsOne,
    /// A fingerprint is a mismatch only for an id whose fingerprint is known.
    CertainMismatch,
    // Segments:
    /// A segment is on the disk before a manifest names it.
    SegmentFirst,
    /// A file is deleted after the manifest that no longer names it is on the disk.
    ManifestFirst,
    /// A tombstone stays while an older segment can hold the id.
    TombstoneStays,
    /// The record of the newest segment counts.
    NewestRecord,
    /// An id is out of retention when exactly that time has passed, no sooner.
    WholeRetention,
    /// A segment is dropped only when no older one is left.
    OldestFirst,
    /// The checksum of a page is looked at.
    PageChecksum,
    /// A file that a failed publication may have named is not deleted before the next manifest.
    KeepDoubtful,
    /// A segment's sources count until it does: both change as one.
    PublishAsOne,
    /// An accepted id counts as sealed only when its segment can be asked.
    PublishedFirst,
    /// An id that is accepted while a file is closed does not count as sealed.
    SealedUpTo,
    /// An id that is held for the next checkpoint does not count as sealed.
    HeldIsUnsealed,
    /// An id that was forgotten is known to be until segments say so.
    ForgottenUntilSealed,
    /// Before segments are asked, it is seen whether the window may have forgotten what is not
    /// sealed.
    LagFirst,
    /// Before the window is asked, it is seen whether an id was forgotten.
    StateBefore,
    /// The same is looked at again before segments are asked.
    StateAgain,
    /// Segments are forgotten before the window, when everything is: so nobody learns from them
    /// what the window is told then.
    SegmentsForgottenFirst,
    /// An id that a claim has found in segments stays in the window only if nothing was forgotten
    /// since.
    KnownStillStays,
    /// The fingerprint of an id that was asked for again stays as of the time of the question.
    SlidesAsAsked,
    /// A claim asks the window again if the fingerprint that differs has expired meanwhile.
    AskAgain,
    /// A claim asks segments again if time has moved between its two looks at the window.
    SegmentsAgain,
    /// Segments are taken before the journal, to be handed over.
    SegmentsFirst,
    /// The pages of a segment that comes from elsewhere are checked before they are written.
    BroughtPages,
    /// A segment's part that is no page is checked when it is on the disk.
    BroughtWhole,
    /// A segment's file gets its name only if the segment is live still.
    BroughtIfLive,
}

/// A place in a call where other threads may come between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(any(test, modelled)), allow(dead_code, reason = "only tests come there"))]
pub(crate) enum Place {
    /// An id is about to be forgotten.
    ToBeForgotten,
    /// The journal has that everything is forgotten, and nothing is yet.
    ToBeCleared,
    /// Everything was forgotten in the tiers, and not yet in the claims.
    Clearing,
    /// The window has taken an id for new, and a long memory was not asked yet.
    Inserted,
    /// One of journal and segments was listed, and the other was not yet.
    Listed,
    /// A check was answered, and the journal does not know yet.
    Checked,
    /// A table is about to be the newest, and no caller sees that yet.
    Starting,
    /// All parts of a table but this one are ready.
    LastPart,
    /// The window is about to be asked, or told, something.
    Window,
    /// Something is about to be read of the window, without an effect on it.
    WindowRead,
    /// The moment is known as of which the time of an entry will be told.
    AboutToStamp,
}

/// Does nothing; in tests, something may happen there.
#[cfg(not(any(test, modelled)))]
#[inline(always)]
pub(crate) const fn meanwhile(_place: Place) {}

/// Returns true if the rule holds here: always, except in models.
#[cfg(not(any(test, modelled)))]
#[inline(always)]
pub(crate) const fn obeys(_rule: Rule) -> bool {
    true
}

#[cfg(any(test, modelled))]
pub(crate) use self::models::*;

#[cfg(any(test, modelled))]
#[cfg_attr(not(modelled), expect(dead_code, reason = "ordinary tests leave out no rule"))]
mod models {
    use super::{Place, Rule};
    #[cfg(all(test, not(modelled)))]
    use crate::sync::turns;
    use crate::sync::{Ordering, StdAtomicU64};
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    /// The place where something happens, once.
    #[derive(Clone, Copy)]
    enum When {
        At(Place),
        /// At a look at the window, after so many others.
        AfterLooks(u8),
    }

    type Meanwhile = (When, Box<dyn FnOnce()>);

    /// The most times that a rule is asked for, more than anything that ends asks.
    const ASKED_MAX: u64 = 1 << 24;
    /// The same of this rule, which is asked for once an append.
    const FAILED_APPENDS_MAX: u64 = 1 << 14;

    thread_local! {
        static LEFT_OUT: Cell<Option<Rule>> = const { Cell::new(None) };
        static BACKWARD: Cell<bool> = const { Cell::new(false) };
        static INTERRUPTIONS: Cell<u64> = const { Cell::new(0) };
        static INTERRUPTED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        /// The number of times that the rule that is left out was asked for.
        static ASKED: Cell<u64> = const { Cell::new(0) };
        static MEANWHILE: Cell<Option<Meanwhile>> = const { Cell::new(None) };
    }

    pub(crate) fn obeys(rule: Rule) -> bool {
        if INTERRUPTIONS.get() != 0 {
            interrupt();
        }
        if LEFT_OUT.get() != Some(rule) {
            return true;
        }
        ASKED.set(ASKED.get() + 1);
        let most = if rule == Rule::FailureEndsAppend { FAILED_APPENDS_MAX } else { ASKED_MAX };
        assert!(ASKED.get() < most, "without {rule:?} it does not end");
        false
    }

    /// Does what a test wants to be done in the midst of a call, at a place.
    pub(crate) fn meanwhile(place: Place) {
        #[cfg(all(test, not(modelled)))]
        match place {
            Place::Window => turns::step(turns::WINDOW, turns::Kind::Write),
            Place::WindowRead => turns::step(turns::WINDOW, turns::Kind::Read),
            _ => {}
        }
        match MEANWHILE.take() {
            Some((When::At(at), act)) if at == place => act(),
            Some((When::AfterLooks(looks), act)) if matches!(place, Place::Window | Place::WindowRead) => {
                match looks.checked_sub(1) {
                    Some(looks) => MEANWHILE.set(Some((When::AfterLooks(looks), act))),
                    None => act(),
                }
            }
            other => MEANWHILE.set(other),
        }
    }

    /// Sets what happens, once, when a thread comes to a place.
    pub(crate) fn at(place: Place, act: impl FnOnce() + 'static) {
        MEANWHILE.set(Some((When::At(place), Box::new(act))));
    }

    /// Sets what happens, once, when a thread looks at the window again after so many looks.
    pub(crate) fn after_looks(looks: u8, act: impl FnOnce() + 'static) {
        MEANWHILE.set(Some((When::AfterLooks(looks), Box::new(act))));
    }

    /// Sets that nothing happens. Returns true if nothing had been left to.
    pub(crate) fn nothing_meanwhile() -> bool {
        MEANWHILE.take().is_none()
    }

    /// Interrupts this thread from now on every now and then where a rule is asked for, which is
    /// where other threads may come between: without that, a machine with few processors hardly
    /// ever interleaves them.
    pub(crate) fn be_interrupted() {
        static THREADS: StdAtomicU64 = StdAtomicU64::new(1);
        if INTERRUPTIONS.get() == 0 {
            INTERRUPTIONS.set(THREADS.fetch_add(1, Ordering::Relaxed));
        }
    }

    /// The longest that a thread is interrupted in all: on a machine that is busy with other
    /// things, each interruption takes some milliseconds, and there is no need for so many.
    const INTERRUPTED_MAX: Duration = Duration::from_millis(500);

    /// Interrupts this thread at one in 64 places (chosen by Marsaglia's xorshift, 2003).
    #[cold]
    fn interrupt() {
        let mut random = INTERRUPTIONS.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        INTERRUPTIONS.set(random);
        if random.is_multiple_of(64) && INTERRUPTED.get() < INTERRUPTED_MAX {
            let began = Instant::now();
            std::thread::yield_now();
            INTERRUPTED.set(INTERRUPTED.get() + began.elapsed());
        }
    }

    /// Leaves out a rule from now on in this thread (and in what a model runs on it).
    pub(crate) fn leave_out(rule: Option<Rule>) {
        LEFT_OUT.set(rule);
        ASKED.set(0);
    }

    /// Returns true if looks read the slots of a bucket from the last to the first.
    pub(crate) fn reads_backward() -> bool {
        BACKWARD.get()
    }

    pub(crate) fn read_backward(backward: bool) {
        BACKWARD.set(backward);
    }
}
