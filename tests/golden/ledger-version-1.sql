-- A ledger as the first ones were made. What is read must not change with the code.
PRAGMA application_id = 0x4C4C504C;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE failed_attempts (
        trial INTEGER NOT NULL REFERENCES trials (number),
        attempt INTEGER NOT NULL,
        usage TEXT NOT NULL,
        error TEXT,
        started REAL NOT NULL,
        seconds REAL NOT NULL,
        provenance TEXT NOT NULL REFERENCES provenances (id),
        PRIMARY KEY (trial, attempt)
    );
INSERT INTO "failed_attempts" VALUES(2,1,'{}','E: no',1.0,2.0,'p');
INSERT INTO "failed_attempts" VALUES(3,1,'{}','E: no',1.0,2.0,'p');
CREATE TABLE provenances (
        id TEXT PRIMARY KEY,
        content TEXT NOT NULL
    );
INSERT INTO "provenances" VALUES('p','{"commit": "c0ffee", "templates": {"a.j2": "00"}}');
CREATE TABLE results (
        trial INTEGER PRIMARY KEY REFERENCES trials (number),
        status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
        success INTEGER,
        plan TEXT NOT NULL,
        metrics TEXT NOT NULL,
        usage TEXT NOT NULL,
        error TEXT,
        attempts INTEGER NOT NULL,
        started REAL NOT NULL,
        seconds REAL NOT NULL,
        provenance TEXT NOT NULL REFERENCES provenances (id),
        trace_sha256 TEXT,
        trace_bytes INTEGER
    );
INSERT INTO "results" VALUES(0,'done',1,'["dig"]','{"nodes": 7, "success_basis": "predicted"}','{"propose": {"calls": 3, "prompt_tokens": 90, "completion_tokens": 10}}',NULL,1,1.0,2.0,'p','9806e6c742e412d872a1797b18cd81f7423b171ea281019a4b02a8eabeaeb8f0',9);
INSERT INTO "results" VALUES(2,'failed',NULL,'[]','{}','{}','E: no',2,1.0,2.0,'p',NULL,NULL);
CREATE TABLE sweep (content TEXT NOT NULL);
INSERT INTO "sweep" VALUES('{"name": "o", "retries": 1}');
CREATE TABLE trials (
        number INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        content TEXT NOT NULL
    );
INSERT INTO "trials" VALUES(0,'6d80fc5f6be6929879cce85c147840803f0c97d816e8f958270c0a2d632462ae','{"planner": "too", "environment": "minecraft", "task": "craft-a-diamond-pickaxe", "model": "tiny", "world_model": "other/model", "seed": 0, "settings": {"k": 1, "d": 8, "iter": 5}}');
INSERT INTO "trials" VALUES(1,'3a266b856244cdbab411afe7ca1987d2bd45862062c3471258b503ab1f16a4b2','{"planner": "too", "environment": "minecraft", "task": "craft-a-diamond-pickaxe", "model": "tiny", "world_model": null, "seed": 1, "settings": {"k": 1, "d": 8, "iter": 5}}');
INSERT INTO "trials" VALUES(2,'3282c92de59dc871b447374c1b1f18bfd42ef61a22c7336ed6b2aefc11ad237e','{"planner": "puct", "environment": "textgame", "task": "zork1", "model": "tiny", "world_model": null, "seed": 0, "settings": {"C": 50}}');
INSERT INTO "trials" VALUES(3,'e2d793ea5a8e8a07437dea3b6aa77e479a187dcca4a13512691ab4a5e9988be0','{"planner": "uct", "environment": "textgame", "task": "zork1", "model": "tiny", "world_model": null, "seed": 0, "settings": {"C": 50}}');
COMMIT;
