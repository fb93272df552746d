-- Whoever may use the marks of tables of version 2 may use what is written down beside them.
DO $hapax$
DECLARE
    granted record;
BEGIN
    IF (SELECT max(v.version) FROM {migrations} v) IS DISTINCT FROM 2 THEN
        RETURN;
    END IF;
    FOR granted IN
        SELECT a.privilege_type AS privilege,
            CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS role
        FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = '{marks}'::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON {handled} TO %s', granted.privilege, granted.role);
        IF granted.privilege = 'INSERT' THEN
            EXECUTE format('GRANT USAGE ON SEQUENCE {handled_number} TO %s', granted.role);
        END IF;
    END LOOP;
END $hapax$;
