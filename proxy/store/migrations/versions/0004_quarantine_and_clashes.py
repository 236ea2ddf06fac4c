"""What waits for a person or was decided by one: content in quarantine, clashes, and the trail of decisions."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def upgrade() -> None:
    """Create the three tables and their indexes."""
    op.create_table(
        "quarantine",
        sa.Column("id", sa.Text, primary_key=True),
        *_texts("client", "run_id", "policy", "hash", "client_key", "kind", "role", "type", "reason", "source", "record_id"),
        sa.Column("score", sa.Float(53)),
        sa.Column("detail", sa.LargeBinary, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("seen_at", sa.Float(53), nullable=False),
        sa.Column("seen_count", sa.BigInteger, nullable=False),
        *_texts("status", "scope", "decided_by", "decision_reason"),
        sa.Column("decided_at", sa.Float(53)),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_index("quarantine_created_at", "quarantine", ["created_at", "id"])
    op.create_index("quarantine_status", "quarantine", ["status", "created_at", "id"])
    op.create_index("quarantine_run", "quarantine", ["client", "run_id"])
    op.create_index("quarantine_client_key", "quarantine", ["client_key"])
    op.create_index("quarantine_seen_at", "quarantine", ["seen_at"])
    op.create_table(
        "clashes",
        sa.Column("id", sa.Text, primary_key=True),
        *_texts("client", "run_id", "policy", "pair_hash", "run_key", "type", "topic", "strategy", "record_id"),
        sa.Column("critical", sa.Boolean, nullable=False),
        sa.Column("statements", sa.LargeBinary, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("seen_at", sa.Float(53), nullable=False),
        *_texts("status", "resolution", "resolved_by", "reason"),
        sa.Column("merged", sa.LargeBinary, nullable=False),
        sa.Column("resolved_at", sa.Float(53)),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_index("clashes_created_at", "clashes", ["created_at", "id"])
    op.create_index("clashes_run_key", "clashes", ["run_key", "created_at", "id"])
    op.create_index("clashes_run", "clashes", ["client", "run_id"])
    op.create_index("clashes_seen_at", "clashes", ["seen_at"])
    op.create_table(
        "decisions",
        sa.Column("id", sa.Text, primary_key=True),
        *_texts("subject", "client_key"),
        sa.Column("number", sa.BigInteger, nullable=False),
        *_texts("decision", "scope", "decided_by", "reason"),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("decided_at", sa.Float(53), nullable=False),
    )
    op.create_index("decisions_subject", "decisions", ["subject", "number"])
    op.create_index("decisions_client_key", "decisions", ["client_key", "scope", "decided_at"])
    op.create_index("decisions_decided_at", "decisions", ["decided_at"])


def downgrade() -> None:
    """Drop them."""
    for name in ("decisions", "clashes", "quarantine"):
        op.drop_table(name)
