-- Marks ids for a consumer, each once however often it is named: all of them, with when they were
-- marked, and whether that was now. Written in the order of their bytes, so that two batches do not
-- wait in a circle. keeps: for how many microseconds each; of an id that is named several times,
-- what is said first. For the rest see {once_kept}.
CREATE OR REPLACE FUNCTION {once_batch_kept}(consumer text, ids bytea[], keeps float8[])
RETURNS TABLE (marked_id bytea, marked_at bigint, is_first boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $hapax$
#variable_conflict use_variable
DECLARE
    oldest integer;
    newest integer;
    is_double boolean;
    looked integer;
    rest bytea[];
    taken bytea[];
    taken_at timestamptz[];
    known bytea[];
    known_at timestamptz[];
BEGIN
    SELECT array_agg(DISTINCT u.id ORDER BY u.id) INTO rest FROM unnest($2) u(id);
    FOR turn IN 1..{turns} LOOP
{hold}        known := NULL;
        known_at := NULL;
{looks_batch}
        IF known IS NOT NULL THEN
            RETURN QUERY SELECT u.id, (extract(epoch FROM min(u.at)) * 1000000)::bigint, false
                FROM unnest(known, known_at) u(id, at) GROUP BY u.id;
            SELECT array_agg(u.id) INTO rest FROM (SELECT unnest(rest) EXCEPT SELECT unnest(known)) u(id);
        END IF;
        IF NOT is_double THEN
            WITH written AS (
                INSERT INTO {marks} AS m (slot, consumer, id, expires_at)
                SELECT newest & {slot_mask}, $1, u.id, {until} FROM {mark_state} s, unnest(rest) u(id)
                WHERE s.newest = newest AND NOT s.is_double ORDER BY u.id
                ON CONFLICT DO NOTHING RETURNING m.id, m.first_at
            ) SELECT array_agg(w.id), array_agg(w.first_at) INTO taken, taken_at FROM written w;
        ELSE
            WITH written AS (
                INSERT INTO {marks} AS m (slot, consumer, id, expires_at)
                SELECT (newest - 1) & {slot_mask}, $1, u.id, {until} FROM {mark_state} s, unnest(rest) u(id)
                WHERE s.newest = newest AND s.is_double ORDER BY u.id
                ON CONFLICT DO NOTHING RETURNING m.id
            ) SELECT array_agg(w.id) INTO taken FROM written w;
            BEGIN
                WITH written AS (
                    INSERT INTO {marks} AS m (slot, consumer, id, expires_at)
                    SELECT newest & {slot_mask}, $1, u.id, {until} FROM unnest(taken) u(id) ORDER BY u.id
                    ON CONFLICT DO NOTHING RETURNING m.id, m.first_at
                ) SELECT array_agg(w.id), array_agg(w.first_at) INTO taken, taken_at FROM written w;
{unknown}            END;
        END IF;
        RETURN QUERY SELECT u.id, (extract(epoch FROM u.at) * 1000000)::bigint, true
            FROM unnest(taken, taken_at) u(id, at);
        IF cardinality(taken) IS NOT DISTINCT FROM cardinality(rest) THEN
            RETURN;
        END IF;
        -- The state has moved; or somebody has marked them, and is seen from now on; or, if that was
        -- looked at already, their marks have expired.
        SELECT array_agg(u.id) INTO rest FROM (SELECT unnest(rest) EXCEPT SELECT unnest(taken)) u(id);
        IF turn > 1 THEN
            PERFORM {marks_expire}($1, rest, newest, is_double);
        END IF;
    END LOOP;
    RAISE EXCEPTION 'ids were neither marked nor there in {turns} turns'
        USING ERRCODE = 'serialization_failure';
END $hapax$;

-- The same as long as their bucket is kept.
CREATE OR REPLACE FUNCTION {once_batch}(consumer text, ids bytea[])
RETURNS TABLE (marked_id bytea, marked_at bigint, is_first boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $hapax$
BEGIN
    RETURN QUERY SELECT * FROM {once_batch_kept}(consumer, ids, NULL::float8[]);
END $hapax$;
