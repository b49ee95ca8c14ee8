"""The tables of a store, declared once for both databases. Their names and columns are documented and stay.

The log of a model is the rows of `acts`, `feedback` and `changes`, numbered together by `seq` without gaps. Nothing in
it is changed later, but for features that are dropped. The view `decisions` joins actions with feedback and names.
"""

import re
from typing import NamedTuple

FORMAT = 1


class Table(NamedTuple):
    """A table: its name, its columns with their types in SQLite, and the columns of its primary key.

    >>> Table("points", "x INTEGER, y REAL", "x").create({"INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION"})
    'CREATE TABLE points (x BIGINT, y DOUBLE PRECISION, PRIMARY KEY (x))'
    """

    name: str
    columns: str
    key: str

    def create(self, types: dict[str, str]) -> str:
        """Return the statement that makes the table in a database that has these names of types."""
        columns = re.sub(r"[A-Z]+", lambda match: types.get(match[0], match[0]), self.columns)
        return f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({self.key}))"


ABOUT = Table("about", "name TEXT, value INTEGER", "name")
MODELS = Table("models", "model INTEGER, name TEXT UNIQUE, settings TEXT, created REAL, checksum INTEGER", "model")
# A graph is named by a hash of its document.
GRAPHS = Table("graphs", "graph INTEGER, document TEXT", "graph")
NAMES = Table("names", "graph INTEGER, kind TEXT, position INTEGER, name TEXT", "graph, kind, position")
# One row for each transaction of a writer. The key keeps out a writer that was replaced: its next number is taken.
COMMITS = Table(
    "commits",
    "model INTEGER, number INTEGER, writer TEXT, first INTEGER, size INTEGER, checksum INTEGER",
    "model, number",
)
ACTS = Table(
    "acts",
    "model INTEGER, seq INTEGER, session TEXT, round INTEGER, time REAL, action_index INTEGER, greedy_index INTEGER, "
    "probability REAL, probabilities BLOB, scores BLOB, graph INTEGER, followed INTEGER, feature_ids BLOB, "
    "feature_values BLOB, features_checksum INTEGER, checksum INTEGER",
    "model, seq",
)
FEEDBACK = Table(
    "feedback",
    "model INTEGER, seq INTEGER, round INTEGER, time REAL, status TEXT, label_index INTEGER, checksum INTEGER",
    "model, seq",
)
CHANGES = Table(
    "changes",
    "model INTEGER, seq INTEGER, kind TEXT, time REAL, document TEXT, who TEXT, checksum INTEGER",
    "model, seq",
)
ANSWERS = Table(
    "answers",
    "model INTEGER, key TEXT, fingerprint BLOB, answer BLOB, time REAL, checksum INTEGER",
    "model, key",
)
# A snapshot counts once its row is here, after all of its parts.
SNAPSHOTS = Table("snapshots", "model INTEGER, at INTEGER, parts INTEGER, time REAL", "model, at")
PARTS = Table("snapshot_parts", "model INTEGER, at INTEGER, part INTEGER, data BLOB", "model, at, part")
TABLES = (ABOUT, MODELS, GRAPHS, NAMES, COMMITS, ACTS, FEEDBACK, CHANGES, ANSWERS, SNAPSHOTS, PARTS)

INDEXES = (
    "CREATE INDEX feedback_round ON feedback (model, round)",
    "CREATE INDEX changes_kind ON changes (model, kind, seq)",
    "CREATE INDEX answers_time ON answers (model, time)",
)


def _name(kind: str, index: str) -> str:
    """Return the name of an action or a class as an expression of SQL."""
    return f"(SELECT name FROM names WHERE names.graph = acts.graph AND kind = '{kind}' AND position = {index})"


VIEW = f"""CREATE VIEW decisions AS SELECT found.*,
CASE WHEN label = action THEN 1 WHEN label <> action THEN 0 END AS correct
FROM (SELECT
models.name AS model,
acts.session || '-' || acts.round AS id,
acts.round AS round,
acts.time AS time,
{_name("action", "acts.action_index")} AS action,
acts.action_index AS action_index,
acts.probability AS probability,
{_name("class", "acts.greedy_index")} AS greedy,
acts.probabilities AS probabilities,
acts.scores AS scores,
acts.graph AS graph,
acts.followed AS followed,
COALESCE(feedback.status, 'waiting') AS status,
{_name("class", "feedback.label_index")} AS label,
feedback.time AS feedback_time,
acts.feature_ids AS feature_ids,
acts.feature_values AS feature_values,
(SELECT count(*) FROM changes WHERE changes.model = acts.model AND kind = 'restarted' AND changes.seq < acts.seq)
AS restarts
FROM acts JOIN models ON models.model = acts.model
LEFT JOIN feedback ON feedback.model = acts.model AND feedback.round = acts.round) AS found"""
