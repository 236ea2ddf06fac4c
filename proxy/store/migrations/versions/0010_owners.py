"""Whose the things are that providers keep under the operator's key."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table and its index."""
    op.create_table(
        "owners",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("used_at", sa.Float(53), nullable=False),
    )
    op.create_index("owners_used_at", "owners", ["used_at"])


def downgrade() -> None:
    """Drop what was created."""
    op.drop_table("owners")
