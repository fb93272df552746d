-- Tables of another version are left alone.
DO $hapax$
DECLARE
    found integer;
BEGIN
    IF to_regclass('{migrations}') IS NOT NULL THEN
        EXECUTE 'SELECT max(version) FROM {migrations}' INTO found;
        IF found <> {version} THEN
            RAISE EXCEPTION 'expected no tables {shown}, or those of version {version}, got version %', found
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
    END IF;
END $hapax$;
-- Which version the tables are of. Functions that mean something else in another version have other
-- names there, so that calls of code that is not for it fail.
CREATE TABLE IF NOT EXISTS {migrations} (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
