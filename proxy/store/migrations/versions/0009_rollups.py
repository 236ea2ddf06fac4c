"""What exchanges add up to, by minute, hour and day: the tables alone, which `proxy.store.rollup_builder` fills while the server runs."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "rollups",
        sa.Column("seconds", sa.Integer, primary_key=True),
        sa.Column("start", sa.BigInteger, primary_key=True),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("version", "built")),
        sa.Column("wait_until", sa.Float(53), nullable=False),
        sa.Column("panels", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    due = sa.text("built <> version")
    op.create_index("rollups_due", "rollups", ["seconds", "start"], sqlite_where=due, postgresql_where=due)
    op.create_table(
        "rollup_marks",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("complete_from", sa.Float(53), nullable=False),
        sa.Column("marked_from", sa.Float(53)),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("rollup_marks")
    op.drop_index("rollups_due", "rollups")
    op.drop_table("rollups")
