"""What lists and charts of exchanges need, in columns and in one index that holds all of it; what people say of findings.

The new columns are added without rewriting a row. The index takes the place of that on ``created_at`` alone, which it begins with.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_LINE = ("created_at", "id", "outcome", "status", "reason", "would", "route", "model", "client", "duration_ms", "overhead_ms")
_AMOUNTS = ("prompt_tokens_before", "prompt_tokens", "completion_tokens", "cost_usd")


def upgrade() -> None:
    """Add the columns, change the index, create the table."""
    for name in ("reason", "would"):
        op.add_column("records", sa.Column(name, sa.Text, nullable=False, server_default=""))
    for name in ("overhead_ms", "cost_usd"):
        op.add_column("records", sa.Column(name, sa.Float(53)))
    for name in ("question", "answer"):
        op.add_column("records", sa.Column(name, sa.Text, nullable=False, server_default=""))
    op.create_index("records_line", "records", [*_LINE, *_AMOUNTS])
    op.drop_index("records_created_at", "records")
    op.create_table(
        "feedback",
        sa.Column("id", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("record_id", "client", "policy", "stage", "place", "label")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("said", "expected", "said_by", "note")),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
    )
    op.create_index("feedback_created_at", "feedback", ["created_at", "id"])
    op.create_index("feedback_record", "feedback", ["record_id"])


def downgrade() -> None:
    """Put the index back, drop what was created."""
    op.drop_table("feedback")
    op.create_index("records_created_at", "records", ["created_at"])
    op.drop_index("records_line", "records")
    for name in ("answer", "question", "cost_usd", "overhead_ms", "would", "reason"):
        op.drop_column("records", name)
