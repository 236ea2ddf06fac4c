"""A client's bytes <-> `Exchange`: HTTP without a framework (`http`), server-sent events (`sse`), and a folder a dialect (`dialect` is the
contract)."""
