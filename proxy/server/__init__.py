"""One request from end to end (`endpoint`), work after the answer has left (`background`), and uvicorn (`startup`)."""
