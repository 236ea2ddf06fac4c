"""A chatbot over documents with LangChain: what the retriever finds goes along as ``groundwire.context``, and the headers say whether
the answer follows from it. ``pip install langchain-openai``, then ``python examples/clients/langchain_rag.py`` beside a running
``groundwire serve``.
"""

import os

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_openai import ChatOpenAI

BASE_URL = os.environ.get("GROUNDWIRE_URL", "http://127.0.0.1:4000/openai/v1")
PAGES = [
    Document("The Kestrel carries up to 180 kg, rider included.", metadata={"source": "load.md"}),
    Document("The battery of the Kestrel lasts 70 km.", metadata={"source": "battery.md"}),
    Document("The shop in Bergen opens at nine.", metadata={"source": "shops.md"}),
]


class ByWords(BaseRetriever):
    """In place of a vector store: the two pages that share most words with the question."""

    def _get_relevant_documents(self, query, *, run_manager):
        words = set(query.lower().split())
        return sorted(PAGES, key=lambda page: -len(words & set(page.page_content.lower().split())))[:2]


question = "How far does the battery of the Kestrel last?"
context = [{"content": page.page_content, "source": page.metadata["source"]} for page in ByWords().invoke(question)]
model = ChatOpenAI(
    model="gpt-4o-mini",
    base_url=BASE_URL,
    api_key=os.environ.get("OPENAI_API_KEY", "unused"),
    include_response_headers=True,
    extra_body={"groundwire": {"context": context}},
    default_headers={"x-groundwire-policy": "rag"},  # every sentence is checked against the pages before it leaves
)
answer = model.invoke(question)
headers = answer.response_metadata["headers"]
print(answer.content)
print(f"verdict {headers['x-groundwire-verdict']}, faithfulness {headers.get('x-groundwire-faithfulness')}")
