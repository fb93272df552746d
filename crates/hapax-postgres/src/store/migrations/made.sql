-- CREATE OR REPLACE leaves a function to its owner.
DO $hapax$
DECLARE
    other record;
BEGIN
    SELECT p.proname, pg_get_userbyid(p.proowner) AS owner INTO other
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = '{schema}' AND starts_with(p.proname, '{prefix}_')
        AND p.xmin::text::bigint = pg_current_xact_id()::text::bigint % 4294967296 AND NOT {is_trusted} LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'expected that the function %.% belongs to the role % that makes tables, or is not there: it belongs to %',
            '{schema}', other.proname, current_user, other.owner USING ERRCODE = 'insufficient_privilege';
    END IF;
END $hapax$;
