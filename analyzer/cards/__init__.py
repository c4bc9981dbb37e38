"""Users' own signatures: TOML cards, loaded into the same ``Signature`` type.

A card says what lines of a log mean, in the format of the shipped signatures (``signature_toml``),
and runs no code. ``load`` finds cards, ``card`` reads those of a file, and ``trial`` holds their
patterns against their examples.
"""
