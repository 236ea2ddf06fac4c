"""Facts to check claims against: read from a folder, cut into pieces that can be found, and the words of a verdict on a claim.

Pure and synchronous. `reading` reads the folder, `chunking` cuts its documents, `facts` is what comes out. The index over the facts is
`proxy.models.knowledge`, who asks a verifier about them `proxy.verification.facts`, and the stage that brings both into a policy
`proxy.stages.knowledge`.
"""
