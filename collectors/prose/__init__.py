"""What people write of a hang, read into facts.

The way, from top to bottom: ``text.py`` takes a text into paragraphs, without what programs print;
``phrases.toml`` says which phrase means what; ``accounts.py``, ``troubles.py`` and ``places.py``
make facts of the phrases. ``summaries.py`` reads stacks that a person has noted.
``reader.py`` asks them all.
"""
