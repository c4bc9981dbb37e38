"""The middle of whyhang: who the ranks are, who waits for whom, and what that means.

Imports nothing, so that a signature may import a query without loading the command line.
"""
