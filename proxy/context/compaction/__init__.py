"""What is sent in place of a conversation's first messages: found and kept in the store, applied, and made out of runs of messages.

Used by the stages that take messages out of a prompt. A client sends its whole history on every turn; what was once decided about its
beginning is stored under the hash of that beginning and repeated byte for byte, so that the forwarded prefix stays the same.
"""
