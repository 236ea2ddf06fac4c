"""What enters the context, as pieces that can be checked, and how parts of it are taken out again.

`pieces` cuts an exchange's conversation into pieces with their places, `edits` puts the checked conversation in its stead. Used by the
stages that clean the context: validation, poisoning, clash. Pure functions on the exchange.
"""
