-- Removes marks of a consumer. How many ids had one. Whatever is marked in a bucket that begins
-- meanwhile is looked for, too: the state is read again.
CREATE OR REPLACE FUNCTION {forget}(consumer text, ids bytea[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $hapax$
#variable_conflict use_variable
DECLARE
    oldest integer;
    newest integer;
    looked integer;
    gone bytea[];
BEGIN
    FOR turn IN 1..{turns} LOOP
        SELECT s.oldest, s.newest INTO STRICT oldest, newest FROM {state} s WHERE s.one = 1;
        looked := newest - oldest + 1;
{looks_forget}
        IF EXISTS (SELECT FROM {state} s WHERE s.one = 1 AND s.newest = newest) THEN
            RETURN (SELECT count(DISTINCT u.id) FROM unnest(gone) u(id));
        END IF;
    END LOOP;
    RAISE EXCEPTION 'buckets began in each of {turns} turns' USING ERRCODE = 'serialization_failure';
END $hapax$;
