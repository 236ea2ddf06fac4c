"""What the project is built on: lock files, the advisories they are audited against, and a bill of materials of code and weights."""
