-- Other versions are left alone: the first, whose tables are others, and a later one, whose
-- functions would become older ones.
DO $hapax$
DECLARE
    found integer;
BEGIN
    IF to_regclass('{migrations}') IS NOT NULL THEN
        EXECUTE 'SELECT max(version) FROM {migrations}' INTO found;
        IF found NOT BETWEEN {upgraded_from} AND {version} THEN
            RAISE EXCEPTION 'expected no tables {shown}, or those of version {upgraded_from} to {version}, got version %', found
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
    END IF;
END $hapax$;
-- Which migrations have run, and the oldest code that may use what they made. A migration that
-- older code must not use gives new names to the functions that this code calls.
CREATE TABLE IF NOT EXISTS {migrations} (
    version integer PRIMARY KEY,
    compatible_from integer NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
