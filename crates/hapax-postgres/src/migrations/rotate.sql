-- One step of what is due: a bucket is begun every so many microseconds, and is kept for so many
-- after it was closed. What was done: 'made' (a slot), 'begun' (a double state), 'closed' (a single
-- one again), 'left' (not looked at any more), 'emptied'; 'put off' if somebody is in the way;
-- 'nothing'.
--
-- Nothing is waited for, and nothing is locked that writers or readers of the marks lock, but for
-- the partition of a bucket that is not looked at any more, and only if nobody has it.
CREATE OR REPLACE FUNCTION {rotate}(every bigint, keep bigint) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $hapax$
DECLARE
    state record;
    over integer;
    slot text;
    handled text;
    has_rows boolean := false;
    is_in_the_way boolean := false;
BEGIN
    SELECT s.oldest, s.newest, s.is_double INTO state FROM {state} s WHERE s.one = 1
        FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 'put off';
    END IF;

    IF state.is_double THEN
        -- Nobody writes into the older one alone any more, and nobody will.
        IF pg_try_advisory_xact_lock({lock} + state.newest - 1) THEN
            UPDATE {buckets} b SET closed_at = clock_timestamp() WHERE b.bucket = state.newest - 1;
            UPDATE {state} s SET is_double = false WHERE s.one = 1;
            RETURN 'closed';
        END IF;
        is_in_the_way := true;
    ELSIF EXISTS (SELECT FROM {buckets} b WHERE b.bucket = state.newest
            AND b.opened_at + every * interval '1 microsecond' <= clock_timestamp()) THEN
        IF EXISTS (SELECT FROM {buckets} b WHERE b.bucket <= state.newest + 1 - {slots}) THEN
            -- All slots are in use: the newest grows until the oldest is over.
            is_in_the_way := true;
        ELSE
            BEGIN
                slot := '{slot_prefix}' || ((state.newest + 1) & {slot_mask}) || '"';
                handled := '{handled_prefix}' || ((state.newest + 1) & {slot_mask}) || '"';
                -- A transaction's changes are seen before other sessions are told of its tables,
                -- and its locks are held until these are told. So a slot is made in a transaction
                -- of its own, and written into when whoever made it has let go of this lock.
                LOCK TABLE ONLY {marks} IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
                LOCK TABLE ONLY {handled} IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
                IF to_regclass(slot) IS NULL THEN
                    EXECUTE 'CREATE TABLE ' || slot || ' (LIKE {marks} INCLUDING ALL)';
                    EXECUTE 'ALTER TABLE {marks} ATTACH PARTITION ' || slot || ' FOR VALUES IN ('
                        || ((state.newest + 1) & {slot_mask}) || ')';
                    EXECUTE 'CREATE TABLE ' || handled || ' (LIKE {handled} INCLUDING ALL)';
                    EXECUTE 'ALTER TABLE {handled} ATTACH PARTITION ' || handled || ' FOR VALUES IN ('
                        || ((state.newest + 1) & {slot_mask}) || ')';
                    RETURN 'made';
                END IF;
                -- Of somebody who wrote by an old state after it was emptied.
                EXECUTE 'SELECT EXISTS (SELECT FROM ' || slot || ') OR EXISTS (SELECT FROM ' || handled || ')'
                    INTO has_rows;
                IF has_rows THEN
                    EXECUTE 'LOCK TABLE ONLY ' || slot || ', ONLY ' || handled || ' IN ACCESS EXCLUSIVE MODE NOWAIT';
                    EXECUTE 'TRUNCATE ONLY ' || slot || ', ONLY ' || handled;
                END IF;
                INSERT INTO {buckets} (bucket) VALUES (state.newest + 1);
                UPDATE {state} s SET newest = s.newest + 1, is_double = true WHERE s.one = 1;
                RETURN 'begun';
            EXCEPTION WHEN lock_not_available THEN
                is_in_the_way := true;
            END;
        END IF;
    END IF;

    -- Not looked at any more, if nobody writes into it, either.
    UPDATE {state} s SET oldest = s.oldest + 1
        WHERE s.one = 1 AND s.oldest < s.newest - s.is_double::integer
        AND EXISTS (SELECT FROM {buckets} b WHERE b.bucket = s.oldest
            AND b.closed_at + keep * interval '1 microsecond' <= clock_timestamp());
    IF FOUND THEN
        RETURN 'left';
    END IF;

    SELECT b.bucket INTO over FROM {buckets} b WHERE b.bucket < state.oldest ORDER BY b.bucket LIMIT 1;
    IF FOUND THEN
        BEGIN
            slot := '{slot_prefix}' || (over & {slot_mask}) || '"';
            handled := '{handled_prefix}' || (over & {slot_mask}) || '"';
            EXECUTE 'LOCK TABLE ONLY ' || slot || ', ONLY ' || handled || ' IN ACCESS EXCLUSIVE MODE NOWAIT';
            EXECUTE 'TRUNCATE ONLY ' || slot || ', ONLY ' || handled;
            DELETE FROM {buckets} b WHERE b.bucket = over;
            RETURN 'emptied';
        EXCEPTION WHEN lock_not_available THEN
            is_in_the_way := true;
        END;
    END IF;
    RETURN CASE WHEN is_in_the_way THEN 'put off' ELSE 'nothing' END;
END $hapax$;
