-- The partitions for a bucket, as a list of their names: null if they are not made yet. They are
-- looked up as partitions, since anybody who may make tables may have made something of their names.
CREATE OR REPLACE FUNCTION {slots_of}(bucket integer) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $hapax$
BEGIN
    RETURN (SELECT string_agg('ONLY ' || i.inhrelid::regclass::text, ', ' ORDER BY c.relname DESC)
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE (i.inhparent = '{marks}'::regclass AND c.relname = '{prefix}_marks_' || (bucket & {slot_mask}))
            OR (i.inhparent = '{handled}'::regclass AND c.relname = '{prefix}_handled_' || (bucket & {slot_mask})));
END $hapax$;

-- Makes them. Nobody else's table of such a name is taken for one.
CREATE OR REPLACE FUNCTION {slots_make}(bucket integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $hapax$
DECLARE
    slot text := rtrim('{marks_}', '"') || (bucket & {slot_mask}) || '"';
    handled text := rtrim('{handled_}', '"') || (bucket & {slot_mask}) || '"';
BEGIN
    EXECUTE 'CREATE TABLE ' || slot || ' (LIKE {marks} INCLUDING ALL)';
    EXECUTE 'ALTER TABLE {marks} ATTACH PARTITION ' || slot || ' FOR VALUES IN (' || (bucket & {slot_mask}) || ')';
    EXECUTE 'CREATE TABLE ' || handled || ' (LIKE {handled} INCLUDING ALL)';
    EXECUTE 'ALTER TABLE {handled} ATTACH PARTITION ' || handled || ' FOR VALUES IN (' || (bucket & {slot_mask}) || ')';
EXCEPTION WHEN duplicate_table THEN
    RAISE EXCEPTION 'expected no % and no %, which are to be partitions: drop what has the name, and let nobody else make tables in this schema',
        slot, handled USING ERRCODE = 'duplicate_table';
END $hapax$;

-- Lets no other partition be made meanwhile, and has every session look up the partitions anew. The
-- server loses a partition that comes while a session is looking them up: the session does not know
-- it until it is told of another change. Whoever marks looks them up under the lock of a bucket. So
-- when a bucket is closed, nobody is at it who began before the next one's slot was made; all others
-- are told then, and none is left that would look into fewer slots than there are. (Whoever reads
-- these tables, or writes what was handled, without marking holds no such lock: it would have to
-- stand still in the middle of that lookup from before the slot is made until after the bucket
-- before is closed.)
CREATE OR REPLACE FUNCTION {slots_tell}() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $hapax$
BEGIN
    LOCK TABLE ONLY {marks} IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
    LOCK TABLE ONLY {handled} IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
    -- What it is anyway: sessions are told of the statement, not of what it changes.
    ALTER TABLE ONLY {marks} ALTER COLUMN slot SET STATISTICS -1;
    ALTER TABLE ONLY {handled} ALTER COLUMN slot SET STATISTICS -1;
END $hapax$;

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
    slots text;
    has_rows boolean := false;
    is_due boolean;
    is_in_the_way boolean := false;
BEGIN
    SELECT s.oldest, s.newest, s.is_double INTO state FROM {mark_state} s WHERE s.one = 1
        FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 'put off';
    END IF;

    -- The clock was ahead, and is right again: what was begun or closed then was so now, at the
    -- latest.
    IF EXISTS (SELECT FROM {mark_buckets} b WHERE greatest(b.opened_at, b.closed_at) > clock_timestamp()) THEN
        UPDATE {mark_buckets} b SET opened_at = least(b.opened_at, clock_timestamp()),
            closed_at = CASE WHEN b.closed_at IS NOT NULL THEN least(b.closed_at, clock_timestamp()) END
        WHERE greatest(b.opened_at, b.closed_at) > clock_timestamp();
    END IF;

    is_due := EXISTS (SELECT FROM {mark_buckets} b WHERE b.bucket = state.newest
        AND b.opened_at + every * interval '1 microsecond' <= clock_timestamp());
    BEGIN
        IF state.is_double THEN
            -- Nobody writes into the older one alone any more, and nobody will.
            IF pg_try_advisory_xact_lock({marks_lock}, state.newest - 1) THEN
                PERFORM {slots_tell}();
                UPDATE {mark_buckets} b SET closed_at = clock_timestamp() WHERE b.bucket = state.newest - 1;
                UPDATE {mark_state} s SET is_double = false WHERE s.one = 1;
                RETURN 'closed';
            END IF;
            is_in_the_way := true;
        ELSIF EXISTS (SELECT FROM {mark_buckets} b WHERE b.bucket <= state.newest + 1 - {slots}) THEN
            -- All slots are in use: the newest grows until the oldest is over.
            is_in_the_way := is_due;
        ELSE
            -- A transaction's changes are seen before other sessions are told of its tables, and
            -- its locks are held until these are told. So a slot is made in a transaction of its
            -- own, a bucket before it is needed, and written into when whoever made it has let go
            -- of this lock.
            slots := {slots_of}(state.newest + 1);
            IF slots IS NULL THEN
                PERFORM {slots_tell}();
                PERFORM {slots_make}(state.newest + 1);
                RETURN 'made';
            ELSIF is_due THEN
                PERFORM {slots_tell}();
                -- Of somebody who wrote by an old state after it was emptied.
                EXECUTE 'SELECT EXISTS (SELECT FROM ' || replace(slots, ', ', ') OR EXISTS (SELECT FROM ') || ')' INTO has_rows;
                IF has_rows THEN
                    EXECUTE 'LOCK TABLE ' || slots || ' IN ACCESS EXCLUSIVE MODE NOWAIT';
                    EXECUTE 'TRUNCATE ' || slots;
                END IF;
                INSERT INTO {mark_buckets} (bucket) VALUES (state.newest + 1);
                UPDATE {mark_state} s SET newest = s.newest + 1, is_double = true WHERE s.one = 1;
                RETURN 'begun';
            END IF;
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        -- A slot that is made ahead is not due yet.
        is_in_the_way := is_due OR state.is_double;
    END;

    -- Not looked at any more, if nobody writes into it, either.
    UPDATE {mark_state} s SET oldest = s.oldest + 1
        WHERE s.one = 1 AND s.oldest < s.newest - s.is_double::integer
        AND EXISTS (SELECT FROM {mark_buckets} b WHERE b.bucket = s.oldest
            AND b.closed_at + keep * interval '1 microsecond' <= clock_timestamp());
    IF FOUND THEN
        RETURN 'left';
    END IF;

    SELECT b.bucket INTO over FROM {mark_buckets} b WHERE b.bucket < state.oldest ORDER BY b.bucket LIMIT 1;
    IF FOUND THEN
        BEGIN
            slots := {slots_of}(over);
            EXECUTE 'LOCK TABLE ' || slots || ' IN ACCESS EXCLUSIVE MODE NOWAIT';
            EXECUTE 'TRUNCATE ' || slots;
            DELETE FROM {mark_buckets} b WHERE b.bucket = over;
            RETURN 'emptied';
        EXCEPTION WHEN lock_not_available THEN
            is_in_the_way := true;
        END;
    END IF;
    RETURN CASE WHEN is_in_the_way THEN 'put off' ELSE 'nothing' END;
END $hapax$;
