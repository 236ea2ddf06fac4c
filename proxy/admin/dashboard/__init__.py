"""The pages at ``/dashboard``: server-rendered HTML, small JavaScript of our own, one vendored chart library, no other site's anything.

`routes` says what is served and to whom, `html` how text from outside becomes harmless, `frame` what every page shares; each page is a
module of pure functions over values that its handler read from the store. `events` tells open pages what is new.
"""
