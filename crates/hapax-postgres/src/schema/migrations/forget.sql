-- Removes marks of a consumer that have expired, from where ids are written into now. One after the
-- other in the order of their bytes, so that two who do this do not wait in a circle; and with the
-- slots' numbers in the statement, which locks no others then.
CREATE OR REPLACE FUNCTION {marks_expire}(consumer text, ids bytea[], newest integer, is_double boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $hapax$
DECLARE
    slots text := concat_ws(', ', newest & {slot_mask}, CASE WHEN is_double THEN (newest - 1) & {slot_mask} END);
    expired bytea;
BEGIN
    FOR expired IN SELECT u.id FROM unnest(ids) u(id) ORDER BY u.id LOOP
        EXECUTE 'DELETE FROM {marks} m WHERE m.slot IN (' || slots || ') AND m.consumer = $1 AND m.id = $2
            AND m.expires_at <= clock_timestamp()' USING consumer, expired;
    END LOOP;
END $hapax$;

-- Removes marks of a consumer. How many ids had one. Whatever is marked in a bucket that begins
-- meanwhile is looked for, too: the state is read again.
CREATE OR REPLACE FUNCTION {forget}(consumer text, ids bytea[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $hapax$
#variable_conflict use_variable
DECLARE
    oldest integer;
    newest integer;
    is_double boolean;
    looked integer;
    gone bytea[];
BEGIN
    FOR turn IN 1..{turns} LOOP
{hold}        -- All of them, also those that are written into.
        looked := newest - oldest + 1;
        IF NOT is_double THEN
            -- A transaction that was here before the newest slot was made has not heard of it, as
            -- above. It holds what it wrote or forgot in, so no more than one has begun since.
            IF newest & 1 = 0 THEN
                PERFORM FROM {mark_buckets} b WHERE b.bucket = newest;
            ELSE
                PERFORM FROM {flow_migrations} v WHERE v.version = 0;
            END IF;
        END IF;
{looks_forget}
        IF EXISTS (SELECT FROM {mark_state} s WHERE s.one = 1 AND s.newest = newest) THEN
            RETURN (SELECT count(DISTINCT u.id) FROM unnest(gone) u(id));
        END IF;
    END LOOP;
    RAISE EXCEPTION 'buckets began in each of {turns} turns' USING ERRCODE = 'serialization_failure';
END $hapax$;
