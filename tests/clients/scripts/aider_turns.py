"""aider, as its user types: LINES, one after the other, in a session with OPTIONS; both JSON. Writes the last answer as its last line."""

import json
import os

from aider.main import main

coder = main(json.loads(os.environ["OPTIONS"]), return_coder=True)
for line in json.loads(os.environ["LINES"]):
    coder.run(line)
print()
print(coder.partial_response_content)
