"""What a report says in the formats of other tools: profilers, trace viewers, graphs, CI.

Each module makes one format from a ``Report`` alone, so that an old report can be exported too.
"""
