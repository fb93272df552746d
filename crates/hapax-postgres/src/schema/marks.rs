//! Tables and functions of marks, as SQL: see `migrations/once.sql` for why no id is first twice.

use std::fmt::Write as _;

/// The largest number of slots. A bucket is in the slot of its number modulo this: a power of two.
pub(crate) const SLOTS: u32 = 64;
/// The number of rounds of a call if the state changes under it, or if the cause of its failure is
/// gone.
const TURNS: u32 = 10;

const SQL: [&str; 5] = [
    include_str!("migrations/marks.sql"),
    include_str!("migrations/once.sql"),
    include_str!("migrations/once_batch.sql"),
    include_str!("migrations/rotate.sql"),
    include_str!("migrations/forget.sql"),
];
/// Takes the lock of the newest bucket: the same in both functions.
const HOLD: &str = include_str!("migrations/hold.sql");
/// Says so if this session does not know the newest slot yet: see `rotate.sql`.
const UNKNOWN: &str = "            EXCEPTION WHEN check_violation THEN
                RAISE EXCEPTION 'the buckets of marks are about to change' USING ERRCODE = 'serialization_failure';
";
const LOOK: &str = "
                    SELECT m.first_at INTO seen_at FROM {marks} m
                        WHERE m.slot = {slot} AND m.consumer = $1 AND m.id = $2
                            AND (m.expires_at IS NULL OR m.expires_at > clock_timestamp());
                    first_at := least(first_at, seen_at);";
const LOOK_BATCH: &str = "
                    SELECT known || array_agg(u.id), known_at || array_agg(m.first_at)
                        INTO known, known_at FROM unnest(rest) u(id) CROSS JOIN LATERAL (
                            SELECT o.first_at FROM {marks} o
                            WHERE o.slot = {slot} AND o.consumer = $1 AND o.id = u.id
                                AND (o.expires_at IS NULL OR o.expires_at > clock_timestamp()) OFFSET 0
                        ) m;";
/// Removes marks of one slot.
const LOOK_FORGET: &str = "
                    WITH removed AS (
                        DELETE FROM {marks} m WHERE m.slot = {slot} AND m.consumer = $1 AND m.id = ANY ($2)
                        RETURNING m.id, m.expires_at
                    ) SELECT gone || array_agg(r.id) INTO gone FROM removed r
                        WHERE r.expires_at IS NULL OR r.expires_at > clock_timestamp();";
/// The time at which the mark of an id of a batch expires: that said with the first of its name.
const UNTIL: &str = "CASE WHEN $3 IS NOT NULL
                    THEN clock_timestamp() + $3[array_position($2, u.id)] * interval '1 microsecond' END";

/// Returns the SQL that makes the tables and functions that are missing, without their names.
pub(crate) fn made() -> String {
    SQL.concat()
        .replace("{hold}", HOLD)
        .replace("{unknown}", UNKNOWN)
        .replace("{until}", UNTIL)
        .replace("{looks}", &looks(LOOK))
        .replace("{looks_batch}", &looks(LOOK_BATCH))
        .replace("{looks_forget}", &looks(LOOK_FORGET))
        .replace("{slots}", &SLOTS.to_string())
        .replace("{turns}", &TURNS.to_string())
}

/// Looks into the slots of buckets from `oldest`; their number is `looked`. Each is found by
/// halves: the server evaluates six conditions for it.
///
/// Each slot has a statement of its own, with its number in it: so its plan is made once for a
/// session, and locks that slot alone. A statement with a variable would lock all slots, in use or
/// not, until the transaction ends, and no slot could ever be emptied.
fn looks(look: &str) -> String {
    let mut sql = String::from("        FOR looking IN oldest..oldest + looked - 1 LOOP");
    halves(&mut sql, look, 0, SLOTS);
    sql.push_str("\n        END LOOP;");
    sql
}

/// Looks into the slot of the bucket `looking`, which is one of these.
fn halves(sql: &mut String, look: &str, first: u32, slots: u32) {
    if slots == 1 {
        return sql.push_str(&look.replace("{slot}", &first.to_string()));
    }
    let half = slots / 2;
    let _ = write!(sql, "\n            IF looking & {half} = 0 THEN");
    halves(sql, look, first, half);
    sql.push_str("\n            ELSE");
    halves(sql, look, first + half, half);
    sql.push_str("\n            END IF;");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_is_looked_into() {
        let sql = made();
        for slot in 0..SLOTS {
            assert_eq!(sql.matches(&format!("slot = {slot} ")).count(), 3, "{slot}");
        }
        assert!(SLOTS.is_power_of_two());
    }
}
