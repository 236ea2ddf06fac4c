"""What outlives a request: records of exchanges, and the bytes that left a prompt.

`Database` is the connection, `RecordWriter` and `Records` write and read records, `Scratchpad` keeps content, `Retention` deletes
what is old. Nothing here knows stages, models or the app; importing this package alone imports no database library.
"""
