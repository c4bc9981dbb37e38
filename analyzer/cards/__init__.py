"""Users' own signatures: TOML cards, loaded into the same ``Signature`` type.

A card says what lines of a log mean, as a signature file does, but needs no Python and runs no
code. ``load`` finds cards, ``card`` reads one, ``trial`` holds its patterns against its
examples, ``places`` tells the lines of its mistakes.
"""
