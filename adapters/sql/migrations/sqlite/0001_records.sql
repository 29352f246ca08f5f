CREATE TABLE rsc_store (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  id BLOB NOT NULL,
  emptied INTEGER NOT NULL
);
CREATE TABLE rsc_instance (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  name BLOB NOT NULL
);
CREATE TABLE rsc_groups (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  stream BLOB NOT NULL,
  grp BLOB NOT NULL,
  revision INTEGER NOT NULL,
  nonce BLOB NOT NULL,
  schema_version INTEGER NOT NULL,
  updated_at TEXT NOT NULL,
  body BLOB NOT NULL,
  UNIQUE (stream, grp)
);
CREATE TABLE rsc_lives (
  group_id INTEGER NOT NULL,
  life BLOB NOT NULL,
  stamp BLOB,
  report BLOB,
  PRIMARY KEY (group_id, life)
) WITHOUT ROWID;
CREATE TABLE rsc_streams (
  prefix BLOB NOT NULL PRIMARY KEY,
  revision INTEGER NOT NULL,
  nonce BLOB NOT NULL,
  body BLOB NOT NULL
);
CREATE TABLE rsc_audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind INTEGER NOT NULL,
  stream BLOB NOT NULL,
  grp BLOB NOT NULL,
  entry TEXT NOT NULL
);
CREATE INDEX rsc_audit_lists ON rsc_audit (kind, stream, grp, id);
