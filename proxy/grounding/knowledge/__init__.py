"""Facts to check claims against: read from a folder (`reading`), cut into pieces that can be found (`chunking`), and asked about
(`checking`).

The index over them is `proxy.models.knowledge`; the stage that brings them into a policy is `proxy.stages.knowledge`.
"""
