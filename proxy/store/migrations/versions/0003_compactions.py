"""What is sent in place of a conversation's first messages, and when messages were first seen."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables and their indexes, and one to list the scratchpad by."""
    op.create_table(
        "compactions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("covers", sa.Text, nullable=False),
        sa.Column("length", sa.BigInteger, nullable=False),
        sa.Column("pieces", sa.LargeBinary, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("made_at", sa.Float(53), nullable=False),
        sa.Column("used_at", sa.Float(53), nullable=False),
    )
    op.create_index("compactions_used_at", "compactions", ["used_at"])
    op.create_table(
        "first_seen",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("times", sa.LargeBinary, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("used_at", sa.Float(53), nullable=False),
    )
    op.create_index("first_seen_used_at", "first_seen", ["used_at"])
    op.create_index("scratchpad_created_at", "scratchpad", ["created_at", "id"])


def downgrade() -> None:
    """Drop what was created."""
    op.drop_index("scratchpad_created_at", "scratchpad")
    op.drop_table("first_seen")
    op.drop_table("compactions")
