"""Many hosts: which they are, how to run there, and one bundle of what they send."""
