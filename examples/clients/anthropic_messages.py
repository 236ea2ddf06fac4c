"""Anthropic's SDK behind Groundwire, with a document to answer from. ``pip install anthropic``, then
``python examples/clients/anthropic_messages.py`` beside a running ``groundwire serve``.
"""

import os

from anthropic import Anthropic

BASE_URL = os.environ.get("GROUNDWIRE_URL", "http://127.0.0.1:4000/anthropic")
MANUAL = {"type": "text", "media_type": "text/plain", "data": "The battery of the Kestrel lasts 70 km. It charges in three hours."}

client = Anthropic(base_url=BASE_URL, api_key=os.environ.get("ANTHROPIC_API_KEY", "unused"))  # the proxy has the key
got = client.messages.with_raw_response.create(
    model="claude-sonnet-5-5",
    max_tokens=200,
    messages=[
        {
            "role": "user",
            "content": [
                {"type": "document", "source": MANUAL, "title": "manual"},
                {"type": "text", "text": "How far does the battery of the Kestrel last?"},
            ],
        }
    ],
    extra_headers={"x-groundwire-policy": "rag"},
)
print(got.parse().content[0].text)
print(f"verdict {got.headers['x-groundwire-verdict']}, faithfulness {got.headers.get('x-groundwire-faithfulness')}")
