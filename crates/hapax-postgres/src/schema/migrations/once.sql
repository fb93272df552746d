-- Marks an id for a consumer, with a fingerprint of its message if there is one, for so many
-- microseconds, or (null) as long as its bucket is kept. Null if it is first; else when it was
-- marked, in microseconds since 1970.
--
-- Why no id is first twice
--
-- State and rule. Writers look into all buckets from the oldest to the newest. In a single state
-- they write into the newest bucket; in a double state into the newest and the one before it, and
-- an id is first only if neither had it. States come in the order
--     single a, double a b, single b, double b c, single c, ...
-- Whoever writes holds, shared and until its transaction ends, the advisory lock of the newest
-- bucket that it writes into; {rotate} ends "double a b" only when nobody holds that of a.
--
-- Any two that write at the same time have a bucket in common. While the state is "single b",
-- nobody holds the lock of a: it was free when that state began, and who gets it later looks at the
-- state again, sees another newest bucket, and goes round. So all hold that of b (or, once "double
-- b c" has begun, of c), and write into b. While it is "double a b", some hold that of a, and some
-- that of b, and all write into a; nobody holds that of the one before a, as above. In the bucket
-- that they have in common the primary key decides: who comes second waits until the first one's
-- transaction has ended.
--
-- Who was committed before is seen, or refused:
-- * READ COMMITTED: each statement of a function sees what was committed before it. The lock is held
--   first, then marks are looked at, and written last, by a statement that writes only if the state
--   is still the one that was read before the lock. A mark that the look does not see is of
--   somebody who had not committed then: of the same time.
-- * REPEATABLE READ, SERIALIZABLE: all is seen as of the transaction's first statement. If the
--   state has changed since, the server refuses to lock its row (SQLSTATE 40001); if not, whoever
--   committed since is of the same state, so has a bucket in common, and there the server refuses
--   as well, to ignore a row that cannot be seen. The row's lock is given back at once by undoing a
--   subtransaction, or {rotate} would never find the row free.
--
-- A mark that has expired is not seen, and is in the way of a new one where that is to be written:
-- it is removed then, and the new one written in the next turn, by whoever's is first. Others wait
-- for the removal, as for a mark: the key is the same.
--
-- It does not matter where {rotate} dies: each of its steps is one transaction, and any state is
-- one to go on from. Two of them exclude each other by the state's row.
--
-- Two that mark the same ids in the same order do not wait in a circle: of two buckets, the older
-- is always written first.
CREATE OR REPLACE FUNCTION {once_kept}(consumer text, id bytea, content bytea, keep float8) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $hapax$
#variable_conflict use_variable
DECLARE
    oldest integer;
    newest integer;
    is_double boolean;
    looked integer;
    seen_at timestamptz;
    first_at timestamptz;
    is_taken boolean := false;
BEGIN
    FOR turn IN 1..{turns} LOOP
        IF NOT is_taken THEN
{hold}        END IF;
{looks}
        IF first_at IS NOT NULL THEN
            RETURN date_part('epoch', first_at) * 1000000;
        ELSIF is_taken THEN
            -- The state had moved; or it was forgotten meanwhile; or its mark has expired.
            PERFORM {marks_expire}($1, ARRAY[$2], newest, is_double);
            is_taken := false;
            CONTINUE;
        ELSIF NOT is_double THEN
            INSERT INTO {marks} (slot, consumer, id, content, expires_at)
                SELECT newest & {slot_mask}, $1, $2, $3, clock_timestamp() + $4 * interval '1 microsecond'
                FROM {mark_state} s WHERE s.newest = newest AND NOT s.is_double ON CONFLICT DO NOTHING;
            IF FOUND THEN RETURN NULL; END IF;
        ELSE
            INSERT INTO {marks} (slot, consumer, id, content, expires_at)
                SELECT (newest - 1) & {slot_mask}, $1, $2, $3, clock_timestamp() + $4 * interval '1 microsecond'
                FROM {mark_state} s WHERE s.newest = newest AND s.is_double ON CONFLICT DO NOTHING;
            IF FOUND THEN
                BEGIN
                    INSERT INTO {marks} (slot, consumer, id, content, expires_at) VALUES (newest & {slot_mask}, $1, $2, $3,
                        clock_timestamp() + $4 * interval '1 microsecond')
                        ON CONFLICT DO NOTHING;
                    IF FOUND THEN RETURN NULL; END IF;
{unknown}                END;
            END IF;
        END IF;
        -- The state has moved; or somebody has marked it, and is seen from now on: in one of those
        -- that are written into.
        is_taken := true;
        looked := 1 + is_double::integer;
        oldest := newest - is_double::integer;
    END LOOP;
    RAISE EXCEPTION 'an id was neither marked nor there in {turns} turns'
        USING ERRCODE = 'serialization_failure';
END $hapax$;

-- The same without a fingerprint, as long as the bucket is kept. It costs nothing: the server writes
-- the call in its place. No argument has a default, here or elsewhere: of two functions of one name
-- the server takes the one that needs none, which might be somebody else's.
CREATE OR REPLACE FUNCTION {once}(consumer text, id bytea) RETURNS bigint
LANGUAGE sql RETURN {once_kept}(consumer, id, NULL::bytea, NULL::float8);
