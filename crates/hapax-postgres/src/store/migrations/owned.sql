-- CREATE IF NOT EXISTS takes whatever has the name, also what somebody else has made there: a
-- view, say, whose functions would run as whoever reads it.
DO $hapax$
DECLARE
    other record;
BEGIN
    SELECT c.relname, pg_get_userbyid(c.relowner) AS owner INTO other
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = '{schema}' AND c.relname = ANY (ARRAY[{relations}]::name[]) AND NOT {is_trusted} LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'expected that %.% belongs to the role % that makes tables, or is not there: it belongs to %',
            '{schema}', other.relname, current_user, other.owner USING ERRCODE = 'insufficient_privilege';
    END IF;
END $hapax$;
