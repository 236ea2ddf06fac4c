"""Instructions hidden in what should be data: found by their phrases (`phrases`, `addressed`), read through disguises (`hidden`), and
acted on only where it is certain that they are meant (`certainty`, `mentions`). Pure and synchronous.
"""
